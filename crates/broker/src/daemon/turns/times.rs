//! The times at which messages count.

use navlock_wire::{Moment, ToDaemon};

use super::super::session::ends_something;

/// A message with its time, and the key of its connection.
pub(super) struct Frame {
    pub(super) at: Moment,
    pub(super) key: usize,
    pub(super) message: ToDaemon,
}

/// The times of one connection.
pub(super) struct Times {
    /// How far the client's clock is ahead of ours, in nanoseconds. `None` if that cannot be known.
    ahead: Option<i64>,
    /// The time of the last message.
    last: Moment,
}

impl Times {
    pub(super) fn new(ahead: Option<i64>) -> Self {
        Self { ahead, last: 0 }
    }

    /// Gives messages that were just read, with the client's own times, the times at which they count.
    ///
    /// No message counts as sent after `now`, or before an earlier message of the connection. Where the client's
    /// clock is not known, what ends something counts as sent at once, with what was sent before it, because the
    /// client may have told others of that. Whatever else the client says is on its way until it is read.
    pub(super) fn date(
        &mut self,
        frames: &mut [Frame],
        turn: Moment,
        now: impl FnOnce() -> Moment + Copy,
    ) {
        let mut read_at = None;
        let ends = frames.iter().rposition(|frame| ends_something(&frame.message));
        for (place, frame) in frames.iter_mut().enumerate() {
            frame.at = match self.ahead {
                Some(ahead) => frame.at.saturating_add_signed(ahead.saturating_neg()),
                None if ends.is_some_and(|ends| place <= ends) => 0,
                None => Moment::MAX,
            };
            // FAST: what counts as sent before the turn was read after that.
            if frame.at > turn {
                frame.at = frame.at.min(*read_at.get_or_insert_with(now));
            }
            frame.at = frame.at.max(self.last);
            self.last = frame.at;
        }
    }
}

#[cfg(test)]
mod tests {
    use navlock_engine::RequestId;

    use super::*;

    const TURN: Moment = 1000;
    const NOW: Moment = 1010;

    /// The times at which these count, which say that they were sent at these times. Those with `true` end
    /// something.
    fn dated(times: &mut Times, sent: &[(Moment, bool)]) -> Vec<Moment> {
        let request = RequestId::from_parts(0, 0);
        let frame = |&(at, ends): &(Moment, bool)| {
            let message = if ends { ToDaemon::Finish { request } } else { ToDaemon::Claimed };
            Frame { at, key: 0, message }
        };
        let mut frames: Vec<_> = sent.iter().map(frame).collect();
        times.date(&mut frames, TURN, || NOW);
        frames.into_iter().map(|frame| frame.at).collect()
    }

    #[test]
    fn a_message_counts_when_it_was_sent_but_not_after_its_reading_or_before_an_earlier_one() {
        let mut times = Times::new(Some(0));
        assert_eq!(dated(&mut times, &[(5, false), (900, false)]), [5, 900]);
        assert_eq!(dated(&mut times, &[(7, false), (1005, true), (9000, false)]), [900, 1005, NOW]);
        assert_eq!(dated(&mut times, &[(0, false)]), [NOW]);
    }

    #[test]
    fn the_clock_of_another_namespace_is_converted() {
        assert_eq!(dated(&mut Times::new(Some(100)), &[(600, false)]), [500]);
        assert_eq!(dated(&mut Times::new(Some(-100)), &[(600, false)]), [700]);
        assert_eq!(dated(&mut Times::new(Some(i64::MIN)), &[(600, false)]), [NOW]);
        assert_eq!(dated(&mut Times::new(Some(i64::MAX)), &[(600, false)]), [0]);
    }

    #[test]
    fn where_the_clock_is_not_known_what_ends_something_counts_at_once() {
        let mut times = Times::new(None);
        assert_eq!(dated(&mut times, &[(600, false), (700, true), (800, false)]), [0, 0, NOW]);
        assert_eq!(dated(&mut times, &[(900, true)]), [NOW]);
    }
}
