//! `navlock release` and `navlock extend`: ending and extending a hold, by its id or by a name that it holds.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::ExitCode,
    str::FromStr,
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use navlock::{ClientId, Error, Look, LookOptions, Place, ResourceName, look::LockName};
use navlock_platform::{
    peer,
    shell::{line_to_continue, line_to_end},
    socket::Stream,
};

use super::{
    super::Context,
    question::{Answer, Question, line, parse},
    socket::reach,
};
use crate::{
    args::values,
    exit::{Failure, LOST, UNREACHABLE, USAGE},
    text::{printable, quoted_name},
    time::taken,
};

/// Releases what 'navlock hold' has taken.
///
/// When it returns, the locks are free.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  navlock release \"$hold\"    # after hold=$(navlock hold --while-pid $$ db)
  navlock release db

Exit codes:
  0   the locks were held until now
  1   there is no such hold, or not any more
  64  several holds have a lock of this name, or this is neither an id nor a name
  69  the process that keeps the locks does not answer
  75  a lock was lost before, and nothing has been held since then")]
pub(crate) struct ReleaseArgs {
    /// The output of 'navlock hold', the client id that 'navlock query' shows, or the name of a lock that one
    /// hold alone has.
    #[arg(value_name = "ID")]
    id: HoldId,
}

/// Prolongs a hold that has a --ttl.
///
/// The hold ends this time from now, but never earlier than it would have ended before.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  navlock extend \"$hold\"     # by the time of --ttl, from now
  navlock extend db 30m

Exit codes: as for 'navlock release'; also 64 if the hold has no --ttl.")]
pub(crate) struct ExtendArgs {
    /// As for 'navlock release'.
    #[arg(value_name = "ID")]
    id: HoldId,

    /// How long from now: seconds, or a time with units, as in 1m30s.
    ///
    /// The default is the time of --ttl.
    #[arg(
        value_name = "TIME", value_parser = values::time_above_zero,
        allow_negative_numbers = true
    )]
    seconds: Option<Duration>,
}

/// What tells a hold from others.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HoldId {
    Id(ClientId),
    /// The name of one of its locks.
    Name(ResourceName),
}

impl FromStr for HoldId {
    type Err = String;

    /// Also takes the whole output of `navlock hold`, of which the id is the first word.
    fn from_str(text: &str) -> Result<Self, String> {
        let id = text.split_whitespace().next().and_then(|word| word.parse().ok());
        if let Some(id) = id {
            return Ok(Self::Id(id));
        }
        // Somebody who gives an empty text means a variable that was to have the id.
        ResourceName::try_from(text).ok().filter(|_| !text.is_empty()).map(Self::Name).ok_or_else(|| {
            "it is neither an id of a hold nor a name; give what 'navlock hold' has written, in quotes, the \
             client id that 'navlock query' shows, or the name of the lock"
                .to_owned()
        })
    }
}

/// A hold, with the place of the broker of its locks.
struct Hold<'a> {
    place: &'a Place,
    id: ClientId,
}

/// There is no such hold.
const NO_SUCH_HOLD: u8 = 1;

/// How long the process that keeps a hold may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between two tries to connect while the keeper's queue of connections is full.
const PAUSE: Duration = Duration::from_millis(10);

pub(in crate::commands) fn release(
    context: &Context,
    args: &ReleaseArgs,
) -> Result<ExitCode, Failure> {
    match ask(&find(context, &args.id)?, Question::Release)? {
        Answer::Lost(what) => Err(lost(&what, "all that it held was released then")),
        Answer::Refused(why) => Err(Failure::new(USAGE, format_args!("not released: {why}"))),
        Answer::Released | Answer::Extended(_) => Ok(ExitCode::SUCCESS),
    }
}

pub(in crate::commands) fn extend(
    context: &Context,
    args: &ExtendArgs,
) -> Result<ExitCode, Failure> {
    match ask(&find(context, &args.id)?, Question::Extend(args.seconds))? {
        Answer::Lost(what) => Err(lost(&what, "it holds nothing that could be extended")),
        Answer::Refused(why) => Err(Failure::new(USAGE, format_args!("not extended: {why}"))),
        Answer::Extended(left) => {
            context.verbosity.detail(format_args!("held for {} from now", taken(left)));
            Ok(ExitCode::SUCCESS)
        }
        Answer::Released => Ok(ExitCode::SUCCESS),
    }
}

fn lost(what: &str, so: &str) -> Failure {
    Failure::new(LOST, format_args!("{}; {so}", printable(what)))
}

/// The answer of this hold's keeper.
///
/// # Errors
///
/// If there is no such hold, or no answer in time.
fn ask(hold: &Hold<'_>, question: Question) -> Result<Answer, Failure> {
    let &Hold { place, id } = hold;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let stream = loop {
        match reach(place, id) {
            Ok(Some(stream)) => break stream,
            // A keeper whose socket was removed makes another one.
            Ok(None) if Instant::now() < deadline && is_known(place, id)? => thread::sleep(PAUSE),
            Ok(None) => return Err(no_such_hold(hold)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(silent(None));
                }
                thread::sleep(PAUSE);
            }
            Err(error) => {
                let directory = place.holds();
                let message = format!("cannot reach the hold in {}: {error}", directory.display());
                return Err(Failure::new(UNREACHABLE, message));
            }
        }
    };
    let keeper = peer::of(&stream).ok().and_then(|peer| peer.process);
    let said = put(stream, question).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => silent(keeper),
        _ => no_such_hold(hold),
    })?;
    if said.is_empty() {
        // The hold has ended meanwhile, and has answered nobody any more.
        return Err(no_such_hold(hold));
    }
    parse(&said).ok_or_else(|| {
        let said = printable(&String::from_utf8_lossy(&said));
        Failure::new(UNREACHABLE, format_args!("the process that keeps it answers {said:?}"))
    })
}

/// The hold that is meant.
///
/// # Errors
///
/// If no hold of this user has a lock of the name, or several have.
fn find<'a>(context: &'a Context, id: &HoldId) -> Result<Hold<'a>, Failure> {
    let name = match *id {
        // The id says which hold it is, whatever its bucket.
        HoldId::Id(id) => {
            let known = context.others.iter().find(|place| matches!(reach(place, id), Ok(Some(_))));
            return Ok(Hold { place: known.unwrap_or(&context.place), id });
        }
        HoldId::Name(ref name) => name,
    };
    let options = LookOptions::default().bucket(&context.bucket).name(name.clone());
    let overview = Look::once(context.place.clone(), options).map_err(Error::from)?;
    let queue = overview.queues.get(&LockName::new(&*context.bucket, name.clone()));
    let held = queue.into_iter().flat_map(|queue| &queue.held).map(|lock| lock.id.client_id);
    // One that has no room for callers now is a hold as well.
    let holds: Vec<_> = held.filter(|&id| !matches!(reach(&context.place, id), Ok(None))).collect();
    let name = quoted_name(name);
    match holds[..] {
        [id] => Ok(Hold { place: &context.place, id }),
        [] => {
            let said = "is held by no 'navlock hold' of this user in the bucket";
            let bucket = &context.bucket;
            let said = format_args!("{name} {said} {bucket:?}; see 'navlock query --all-buckets'");
            Err(Failure::new(NO_SUCH_HOLD, said))
        }
        _ => {
            let ids: Vec<_> = holds.iter().map(ToString::to_string).collect();
            let said = format!(
                "{name} is held by {} holds; give the id of one: {}",
                ids.len(),
                ids.join(", ")
            );
            Err(Failure::new(USAGE, said))
        }
    }
}

/// Whether the broker knows a client that has this id.
fn is_known(place: &Place, id: ClientId) -> Result<bool, Failure> {
    let overview = Look::once(place.clone(), LookOptions::default()).map_err(Error::from)?;
    Ok(overview.agents.contains_key(&id))
}

/// Sends a question, and reads the answer to its end.
fn put(mut stream: Stream, question: Question) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(line(&question).as_bytes())?;
    let mut said = Vec::new();
    BufReader::new(stream).read_until(b'\n', &mut said)?;
    Ok(said)
}

fn no_such_hold(&Hold { place, id }: &Hold<'_>) -> Failure {
    let directory = place.holds();
    Failure::new(
        NO_SUCH_HOLD,
        format_args!(
            "there is no hold {id} in {}: it was released, its time is over, its process has ended, \
             what kept it was killed, or it is another user's",
            directory.display()
        ),
    )
}

fn silent(keeper: Option<u32>) -> Failure {
    let (who, remedy) = match keeper {
        Some(pid) => {
            let goes_on = line_to_continue(&[pid]);
            let goes_on =
                goes_on.map_or_else(String::new, |line| format!("'{line}' has it go on, "));
            let frees = line_to_end(pid, true);
            (
                format!("the process that keeps it ({pid})"),
                format!("; is it stopped? {goes_on}'{frees}' frees the locks"),
            )
        }
        None => ("the process that keeps it".to_owned(), "; is it stopped?".to_owned()),
    };
    let seconds = ANSWER_TIMEOUT.as_secs();
    let message = format!("{who} does not answer for {seconds} seconds{remedy}");
    Failure::new(UNREACHABLE, message)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::commands::examples::{check_refusal, parsed};

    const ID: &str = "45938644-e5b2-42a0-9dd9-729c3b367f81";

    #[test]
    fn the_id_of_a_hold_is_found_in_what_was_written() {
        let expected = HoldId::Id(ID.parse().unwrap());
        assert_eq!(ID.parse(), Ok(expected.clone()));
        assert_eq!(format!("{ID}\n17\n18\n").parse(), Ok(expected));
        assert_eq!("a b".parse(), Ok(HoldId::Name("a b".try_into().unwrap())));
        for wrong in ["", "-a"] {
            assert!(wrong.parse::<HoldId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hold_is_released_by_its_id_or_by_a_name() {
        let release: ReleaseArgs = parsed(&format!("release {ID}"));
        assert_eq!(release.id, ID.parse().unwrap());
        let release: ReleaseArgs = parsed("release db");
        assert_eq!(release.id, HoldId::Name("db".try_into().unwrap()));
    }

    #[test]
    fn a_hold_is_extended_by_some_time_or_by_its_own() {
        assert_eq!(parsed::<ExtendArgs>(&format!("extend {ID}")).seconds, None);
        let extend: ExtendArgs = parsed(&format!("extend {ID} 1.5"));
        assert_eq!(extend.id, ID.parse().unwrap());
        assert_eq!(extend.seconds, Some(Duration::from_millis(1500)));
        for wrong in ["0", "-1"] {
            let line = format!("extend {ID} {wrong}");
            check_refusal(&line, ErrorKind::ValueValidation, &["TIME", wrong]);
        }
    }
}
