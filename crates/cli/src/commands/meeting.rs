//! Hints for people who may expect to meet other programs, and do not meet them here. No hint costs anything on the way of
//! a lock.

use std::{
    collections::BTreeSet,
    env,
    io::{self, IsTerminal},
};

use navlock::{
    ConnectError, Error, Look, LookOptions, Place, Project, Reason, ResourceName, look::Overview,
};
use navlock_broker::Control;
use navlock_platform::surroundings::peculiarities;

use super::Context;
use crate::{args::BUCKET, reach::unseen, text::quoted_name, verbosity::Verbosity};

/// Tells people at a terminal that sudo has made this another user, who has other locks, unless they chose a place.
pub(super) fn tell_of_sudo(context: &Context) {
    let is_by_sudo = env::var_os("SUDO_UID").is_some() && context.place == Place::of_user();
    if !is_by_sudo || context.verbosity == Verbosity::Quiet || !io::stderr().is_terminal() {
        return;
    }
    for (_, why) in peculiarities().into_iter().filter(|(what, _)| *what == "sudo") {
        context.verbosity.tell(why);
    }
}

/// Tells people that nothing is held and nobody waits, of this name or of any, and where else something is held.
pub(super) fn tell_of_nothing(context: &Context, name: Option<&ResourceName>) {
    if context.verbosity == Verbosity::Quiet {
        return;
    }
    // If the broker does not answer this, the hint is left out.
    let overviews = look_everywhere(context, name).unwrap_or_default();
    // A bucket in the variable goes before that of the project.
    let is_named = env::var_os(BUCKET).is_some_and(|bucket| !bucket.is_empty());
    let project = if is_named { None } else { Project::here().ok() };
    let project = project.as_ref().map(Project::bucket);
    context.verbosity.tell(nothing(&context.bucket, name, &overviews, project));
    tell_of_sudo(context);
}

/// Which brokers have buckets that a look at one broker does not show, for people. `None` if there are none.
pub(super) fn not_shown(context: &Context) -> Option<String> {
    let options = context.others.iter().map(|place| match place.store() {
        Some(store) => format!("--store {store}"),
        None if place.is_of_system() => "--system".to_owned(),
        None => format!("--socket {}", place.socket().display()),
    });
    let options: Vec<_> = options.collect();
    (!options.is_empty()).then(|| {
        format!("some buckets live with other brokers and are not shown: {}", options.join(", "))
    })
}

/// What the brokers have of this name, or of all names, that the settings say of any bucket. One that cannot be reached is
/// told of, if it is not that of the bucket.
///
/// # Errors
///
/// If the bucket's own broker cannot be reached.
pub(super) fn look_everywhere(
    context: &Context,
    name: Option<&ResourceName>,
) -> Result<Vec<Overview>, Error> {
    let options = name.cloned().into_iter().fold(LookOptions::default(), LookOptions::name);
    let mut overviews = vec![Look::once(context.place.clone(), options.clone())?];
    for place in &context.others {
        match Look::once(place.clone(), options.clone()) {
            Ok(overview) => overviews.push(overview),
            Err(error) => context.verbosity.tell(error),
        }
    }
    let of_stores = [&context.place].into_iter().chain(&context.others);
    for place in of_stores.filter(|place| place.store().is_some()) {
        // Any other error was told already.
        let is_away = |error: ConnectError| matches!(error.reason(), Reason::NotRunning);
        if Control::connect(place).is_err_and(is_away) {
            context.verbosity.tell(unseen(place).unwrap_or_default());
        }
    }
    Ok(overviews)
}

fn nothing(
    bucket: &str,
    name: Option<&ResourceName>,
    overviews: &[Overview],
    project: Option<&str>,
) -> String {
    let what = name.map(quoted_name).unwrap_or_default();
    let all = overviews.iter().flat_map(|overview| &overview.queues);
    let others = all.filter(|(name, _)| *name.bucket != *bucket);
    let others: Vec<_> = others.filter(|(_, queue)| !queue.held.is_empty()).collect();
    let held: usize = others.iter().map(|(_, queue)| queue.held.len()).sum();
    let buckets: BTreeSet<&str> = others.iter().map(|(name, _)| &*name.bucket).collect();
    let locks = match held {
        0 if name.is_none() => return "nothing is held and nobody waits".to_owned(),
        0 => return format!("{what} is not held and nobody waits for it"),
        1 => "1 lock is".to_owned(),
        more => format!("{more} locks are"),
    };
    let (place, shows) = match (buckets.len(), project) {
        (1, Some(project)) if buckets.contains(project) => {
            ("that of this folder's project".to_owned(), "--project")
        }
        (1, _) => ("another bucket".to_owned(), "--all-buckets"),
        (more, _) => (format!("{more} other buckets"), "--all-buckets"),
    };
    let them = if held == 1 { "it" } else { "them" };
    let here = match name {
        None => format!("nothing is held in the bucket {bucket:?} and nobody waits"),
        Some(_) => format!("{what} is not held in the bucket {bucket:?} and nobody waits for it"),
    };
    format!("{here}; {locks} held in {place}: {shows} shows {them}")
}

#[cfg(test)]
mod tests {
    use navlock::{UserAgent, blocking::block_on};

    use super::*;

    #[test]
    fn an_empty_bucket_leads_to_those_that_are_not() {
        let user_agent = UserAgent::new();
        let mut looker = user_agent.look(LookOptions::default()).unwrap();
        let mut guards = Vec::new();
        let mut told = |bucket: &str, project: Option<&str>| {
            if !bucket.is_empty() {
                let locks = user_agent.lock_manager(bucket);
                guards.push(block_on(async { locks.lock("db").await }).unwrap());
            }
            while looker.next(Some(std::time::Duration::ZERO)).unwrap().is_some() {}
            nothing("default", None, std::slice::from_ref(looker.overview()), project)
        };
        assert_eq!(told("", None), "nothing is held and nobody waits");
        let empty = "nothing is held in the bucket \"default\" and nobody waits; ";
        assert_eq!(
            told("/srv/shop", Some("/srv/shop")),
            format!("{empty}1 lock is held in that of this folder's project: --project shows it")
        );
        assert_eq!(
            told("", Some("/srv/other")),
            format!("{empty}1 lock is held in another bucket: --all-buckets shows it")
        );
        assert_eq!(
            told("app", Some("/srv/shop")),
            format!("{empty}2 locks are held in 2 other buckets: --all-buckets shows them")
        );
        told("default", None);
    }
}
