//! `navlock release` and `navlock extend`: what is done with a hold by who knows its id.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use navlock::ClientId;
use navlock_platform::{peer, socket::Stream};

use super::{Context, hold::socket::reach};
use crate::{
    args::{ExtendArgs, ReleaseArgs},
    exit::{Failure, LOST, UNREACHABLE, USAGE},
    text::printable,
    time::taken,
};

/// There is no such hold.
const NO_SUCH_HOLD: u8 = 1;

/// How long the process that keeps a hold may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often somebody tries to be heard where as many wait as may.
const PAUSE: Duration = Duration::from_millis(10);

/// What the keeper of a hold is asked, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Release,
    /// By this time from now, or that which it began with.
    Extend(Option<Duration>),
}

/// What it answers, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Released,
    /// It ends after this time.
    Extended(Duration),
    /// Which lock, and how.
    Lost(String),
    Refused(String),
}

impl Question {
    fn line(self) -> String {
        match self {
            Self::Release => "release\n".to_owned(),
            Self::Extend(None) => "extend\n".to_owned(),
            Self::Extend(Some(time)) => format!("extend {}\n", time.as_secs_f64()),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        match line.strip_suffix('\n')?.split_once(' ') {
            None if line == "release\n" => Some(Self::Release),
            None if line == "extend\n" => Some(Self::Extend(None)),
            Some(("extend", time)) => Some(Self::Extend(Some(seconds(time)?))),
            _ => None,
        }
    }
}

impl Answer {
    pub(super) fn line(&self) -> String {
        match self {
            Self::Released => "released\n".to_owned(),
            Self::Extended(left) => format!("extended {}\n", left.as_secs_f64()),
            Self::Lost(what) => format!("lost {}\n", printable(what)),
            Self::Refused(why) => format!("refused {}\n", printable(why)),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        match line.split_once(' ').unwrap_or((line, "")) {
            ("released", _) => Some(Self::Released),
            ("extended", left) => Some(Self::Extended(seconds(left)?)),
            ("lost", what) => Some(Self::Lost(what.to_owned())),
            ("refused", why) => Some(Self::Refused(why.to_owned())),
            _ => None,
        }
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

pub(super) fn release(context: &Context, args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    match ask(context, args.id.0, Question::Release)? {
        Answer::Lost(what) => Err(lost(&what, "all that it held was released then")),
        Answer::Refused(why) => Err(Failure::new(USAGE, format_args!("not released: {why}"))),
        Answer::Released | Answer::Extended(_) => Ok(ExitCode::SUCCESS),
    }
}

pub(super) fn extend(context: &Context, args: &ExtendArgs) -> Result<ExitCode, Failure> {
    match ask(context, args.id.0, Question::Extend(args.seconds))? {
        Answer::Lost(what) => Err(lost(&what, "it holds nothing that could be extended")),
        Answer::Refused(why) => Err(Failure::new(USAGE, format_args!("not extended: {why}"))),
        Answer::Extended(left) => {
            context.voice.detail(format_args!("held for {} from now", taken(left)));
            Ok(ExitCode::SUCCESS)
        }
        Answer::Released => Ok(ExitCode::SUCCESS),
    }
}

fn lost(what: &str, so: &str) -> Failure {
    Failure::new(LOST, format_args!("{}; {so}", printable(what)))
}

/// What the keeper of this hold answers.
///
/// # Errors
///
/// If there is no such hold, or no answer in time.
fn ask(context: &Context, id: ClientId, question: Question) -> Result<Answer, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let stream = loop {
        match reach(&context.place, id) {
            Ok(Some(stream)) => break stream,
            Ok(None) => return Err(no_such_hold(context, id)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(silent(None));
                }
                thread::sleep(PAUSE);
            }
            Err(error) => {
                let directory = context.place.holds();
                let message = format!("cannot reach the hold in {}: {error}", directory.display());
                return Err(Failure::new(UNREACHABLE, message));
            }
        }
    };
    let keeper = peer::of(&stream).ok().and_then(|peer| peer.process);
    match put(stream, question, deadline) {
        Ok(line) => match Answer::parse(&line) {
            Some(answer) => Ok(answer),
            // It has ended meanwhile, and heard nobody any more.
            None if line.is_empty() => Err(no_such_hold(context, id)),
            None => {
                let said = format!("the process that keeps it answers {:?}", printable(&line));
                Err(Failure::new(UNREACHABLE, said))
            }
        },
        Err(error) if is_late(&error) => Err(silent(keeper)),
        Err(_) => Err(no_such_hold(context, id)),
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Puts a question, and hears the answer to its end.
fn put(mut stream: Stream, question: Question, deadline: Instant) -> io::Result<String> {
    stream.write_all(question.line().as_bytes())?;
    let mut said = Vec::new();
    let mut bytes = [0; 1024];
    while !said.ends_with(b"\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(length) => said.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn no_such_hold(context: &Context, id: ClientId) -> Failure {
    let directory = context.place.holds();
    Failure::new(
        NO_SUCH_HOLD,
        format_args!(
            "there is no hold {id} in {}: it was released, its time is over, its process has ended, or \
             what kept it was killed",
            directory.display()
        ),
    )
}

fn silent(keeper: Option<u32>) -> Failure {
    let (who, remedy) = match keeper {
        Some(pid) => (
            format!("the process that keeps it ({pid})"),
            format!(
                "; is it stopped? 'kill -CONT {pid}' has it go on, 'kill -KILL {pid}' frees the locks"
            ),
        ),
        None => ("the process that keeps it".to_owned(), "; is it stopped?".to_owned()),
    };
    let seconds = PATIENCE.as_secs();
    let message = format!("{who} does not answer for {seconds} seconds{remedy}");
    Failure::new(UNREACHABLE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_understood_as_they_were_meant() {
        let time = Duration::from_millis(1500);
        for question in [Question::Release, Question::Extend(None), Question::Extend(Some(time))] {
            assert_eq!(Question::parse(&question.line()), Some(question));
        }
        for wrong in ["", "release", "extend x\n", "release\nrelease\n", "extend -1\n"] {
            assert_eq!(Question::parse(wrong), None, "{wrong}");
        }
        for answer in [
            Answer::Released,
            Answer::Extended(time),
            Answer::Lost("\"a b\": it was stolen".to_owned()),
            Answer::Refused("no".to_owned()),
        ] {
            assert_eq!(Answer::parse(&answer.line()), Some(answer));
        }
        assert_eq!(Answer::parse(""), None);
    }
}
