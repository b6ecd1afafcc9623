//! The keeper while it has the locks: it waits for what ends the hold, and answers callers.

use std::{
    io::{Read, Write},
    mem,
    task::{self, Waker},
    time::Duration,
};

use navlock::{BrokerReach, LockGuard, LockManager};
use navlock_platform::{
    process::Handle,
    socket::Stream,
    wait::{Interest, Source, wait_many},
};

use super::super::{
    guard::Guard,
    process::tell_of_loss,
    question::{Answer, Question, line, parse},
    socket::Socket,
    timer::Timer,
};
use crate::{
    args::OnLost,
    commands::{acquire::lost, stream_waker::WakeEnd},
    text::quoted_name,
};

/// How often the keeper checks whether its socket is still there. Where the system tells of the removal, the
/// keeper does not wait for this.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// How many things are waited for besides callers.
const FIXED: usize = 5;

/// How many callers may have a connection without asking anything.
const MOST_CALLERS: usize = 64;

/// The longest question, in bytes.
const LONGEST: usize = 128;

/// The locks, and what their holder needs.
pub(super) struct Held {
    pub(super) guards: Vec<LockGuard>,
    pub(super) locks: LockManager,
    pub(super) reach: BrokerReach,
}

pub(super) struct Keeper {
    /// The locks. `None` when one of them was lost.
    pub(super) held: Option<Held>,
    /// A text for people: which lock was lost, and how. Empty if none was lost.
    pub(super) lost: String,
    pub(super) socket: Socket,
    pub(super) process: Option<Handle>,
    pub(super) on_lost: OnLost,
    pub(super) guard: Option<Guard>,
    pub(super) timer: Timer,
    /// The time of the hold as it was first set, if there is one.
    pub(super) time: Option<Duration>,
    /// Readable when the broker may have told something about the locks.
    pub(super) wake_end: WakeEnd,
    pub(super) waker: Waker,
    /// Callers that have a connection and have not asked yet.
    pub(super) callers: Vec<Stream>,
}

impl Keeper {
    /// Keeps the locks until the end of the hold, and releases them.
    pub(super) fn keep(mut self) {
        self.look_for_losses();
        let answered = self.wait();
        if let Some(guard) = &self.guard {
            guard.say();
        }
        // The locks are released before anybody is told of the release.
        let held = self.held.take();
        if let Some(Held { guards, locks, reach }) = held {
            drop(guards);
            // FAST: everything else ends with this process, which ends now. The broker removes the
            // process's file.
            mem::forget((locks, reach));
        }
        if let Some(caller) = answered {
            let answer = if self.lost.is_empty() {
                Answer::Released
            } else {
                Answer::Lost(mem::take(&mut self.lost))
            };
            tell(&caller, &answer);
        }
    }

    /// Waits for the end of the hold. Returns the caller that has asked for the end, if one has.
    fn wait(&mut self) -> Option<Stream> {
        loop {
            let fixed: [_; FIXED] = [
                Some(self.wake_end.source()),
                Some(self.socket.listener().source()),
                self.process.as_ref().map(Source::source),
                self.timer.source(),
                self.socket.removal(),
            ];
            let asked: Vec<_> = fixed
                .into_iter()
                // In place of a source that is missing, `wake_end` is waited for once more. That does no
                // harm: it gives the same answer twice.
                .map(|source| source.unwrap_or(self.wake_end.source()))
                .chain(self.callers.iter().map(Source::source))
                .map(|source| (source, Interest::READ))
                .collect();
            // An error means that a signal has come.
            let came =
                wait_many(&asked, Some(CHECK_INTERVAL.min(self.timer.left()))).unwrap_or_default();
            let has_come = |index: usize| came.get(index).is_some_and(|came| came.any());
            let has_ended = self.process.is_some() && has_come(2);
            if has_ended || self.timer.left().is_zero() {
                return None;
            }
            if has_come(0) {
                self.wake_end.quiet();
                self.look_for_losses();
            }
            // The callers that have said something, or have gone.
            for index in (0..self.callers.len()).rev().filter(|index| has_come(index + FIXED)) {
                let caller = self.callers.remove(index);
                match receive(&caller) {
                    Some(Question::Release) => return Some(caller),
                    Some(Question::Extend(time)) => tell(&caller, &self.extended(time)),
                    None => {}
                }
            }
            self.callers.extend((0..MOST_CALLERS).map_while(|_| self.socket.accept()));
            // Of the callers that have not asked, the one that has been connected for longest makes
            // room.
            let surplus = self.callers.len().saturating_sub(MOST_CALLERS);
            self.callers.drain(..surplus);
            if has_come(4) {
                self.socket.watch();
            }
            // If there is no room on the disk now, there may be room later.
            let _ = self.socket.mend();
        }
    }

    /// Releases all locks if one of them is lost. If none is lost, the first loss wakes this thread.
    fn look_for_losses(&mut self) {
        let Some(held) = &self.held else { return };
        let context = task::Context::from_waker(&self.waker);
        let Some((name, how)) = lost(&held.guards, &context) else { return };
        self.lost = format!("{}: {how}", quoted_name(&name));
        self.held = None;
        // It is told now, and not once more if this process is killed.
        if let Some(guard) = self.guard.take() {
            guard.say();
        }
        if let Some(process) = &self.process {
            tell_of_loss(process, self.on_lost);
        }
    }

    fn extended(&mut self, time: Option<Duration>) -> Answer {
        if self.held.is_none() {
            return Answer::Lost(self.lost.clone());
        }
        let Some(usual) = self.time else {
            let process = self.process.as_ref().map_or(0, Handle::number);
            return Answer::Refused(format!(
                "it has no time that it ends by: it ends when process {process} has ended"
            ));
        };
        match self.timer.extend(time.unwrap_or(usual)) {
            Ok(()) => Answer::Extended(self.timer.left()),
            Err(error) => Answer::Refused(format!("its time cannot be set: {error}")),
        }
    }
}

/// The question of a caller from whom something has come. The keeper hangs up on a caller that
/// sends no question.
fn receive(mut caller: &Stream) -> Option<Question> {
    let mut bytes = [0; LONGEST];
    // The caller has written its question in one piece.
    let length = caller.read(&mut bytes).ok().filter(|&length| length > 0)?;
    let question = parse(&bytes[..length]);
    if question.is_none() {
        let said = "the process that keeps it is of another release, and knows no such question";
        tell(caller, &Answer::Refused(said.to_owned()));
    }
    question
}

fn tell(mut caller: &Stream, answer: &Answer) {
    // The stream has room for a line, so the write does not wait. If it fails, the caller has not waited
    // for the answer, and needs none.
    let _ = caller.write_all(line(answer).as_bytes());
}
