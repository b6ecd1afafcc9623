//! A connection of somebody who looks.

use std::{future::poll_fn, io::ErrorKind, pin::Pin, sync::Arc, time::Duration};

use bytes::BytesMut;
use futures_util::{Sink, StreamExt};
use navlock_wire::{CodecError, FromDaemon, LookEvent, encode_look_events};
use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    client::Nonsense,
    elsewhere::Elsewhere,
    ends::End,
    house::House,
    journal::PART,
    lookers::{Filter, LOOK, Looker},
    session::{Stream, flush},
};
use crate::pid_namespace;

/// How often it is asked what other machines hold.
const ASK: Duration = Duration::from_secs(1);

/// So many can look on and on; there is a bound for those who ask what there is as well, which is made for each of
/// them and waits until it is heard.
const MOST: usize = 64;

/// Who was too slow, or looks at what other machines hold, is told all that there is anew. Whatever it takes the
/// daemon to put that together, it has so many times as long for others before the next time, however many look.
const SHARE: u32 = 10;

/// What somebody asked for.
pub(super) struct Looking {
    pub(super) stream: Stream,
    pub(super) house: Arc<House>,
    pub(super) filter: Filter,
    /// Whether also to be told what happens.
    pub(super) follow: bool,
}

impl Looking {
    /// Tells what there is, and then what happens until the looker has gone.
    pub(super) async fn serve(mut self) -> End {
        match self.try_serve().await {
            Ok(()) => End::Gone,
            // It ended with something on its way, as when it was killed.
            Err(End::Stream(CodecError::Io(error)))
                if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) =>
            {
                End::Gone
            }
            Err(end) => end,
        }
    }

    async fn try_serve(&mut self) -> Result<(), End> {
        self.until_recovered().await?;
        let most = if self.follow { MOST } else { 2 * MOST };
        if self.house.lookers().count() >= most {
            let reason = format!("{most} look at it already; end one of these first");
            self.say(&FromDaemon::Refused { reason }).await?;
            return Err(End::Refused);
        }
        let looker = self.house.lookers().add(self.filter.clone());
        let mut elsewhere = self.house.look_elsewhere(&self.filter).await;
        // What has happened until now is in what there is.
        looker.skip();
        let mut again = self.tell_all(&looker, &elsewhere).await?;
        if !self.follow {
            return Ok(());
        }
        let (mut look, mut ask) = (Instant::now() + LOOK, Instant::now() + ASK);
        let mut latest = looker.rest();
        loop {
            let is_leased = self.house.user_agent().is_leased();
            let is_behind = looker.is_behind();
            tokio::select! {
                end = gone(&mut self.stream) => return Err(end),
                // What happens meanwhile is counted, and nothing of it is kept for it.
                () = sleep_until(again), if is_behind => {
                    elsewhere = self.house.look_elsewhere(&self.filter).await;
                    again = self.tell_all(&looker, &elsewhere).await?;
                    latest = looker.rest();
                }
                () = looker.news(latest), if !is_behind => {
                    if !looker.is_behind() {
                        self.tell_before(&looker, u64::MAX).await?;
                    }
                    latest = looker.rest();
                }
                () = sleep_until(look), if !is_leased => {
                    self.house.look_anew_now_and_then();
                    look = Instant::now() + LOOK;
                }
                () = sleep_until(ask.max(again)), if is_leased => {
                    let now = self.house.look_elsewhere(&self.filter).await;
                    if !now.is_same(&elsewhere, &self.house.agents()) {
                        elsewhere = now;
                        again = self.tell_all(&looker, &elsewhere).await?;
                    }
                    ask = Instant::now() + ASK;
                }
            }
        }
    }

    /// Waits until all who held something through an earlier daemon hold it here, or are given up: before that
    /// it would look as if nobody held anything.
    async fn until_recovered(&mut self) -> Result<(), End> {
        if self.house.recovery().is_over() {
            return Ok(());
        }
        self.say(&FromDaemon::Recovering).await?;
        let house = Arc::clone(&self.house);
        tokio::select! {
            () = house.recovery().over() => Ok(()),
            end = gone(&mut self.stream) => Err(end),
        }
    }

    /// Tells what has happened before that moment, as far as it was not told.
    async fn tell_before(&mut self, looker: &Looker, moment: u64) -> Result<(), End> {
        loop {
            let message = self.stream.write_buffer_mut();
            let has_more = looker.put_next(moment, message).map_err(End::Stream)?;
            self.send().await?;
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Tells all that there is. When that may be done for the same looker again.
    async fn tell_all(&mut self, looker: &Looker, elsewhere: &Elsewhere) -> Result<Instant, End> {
        let began = Instant::now();
        self.house.look_anew();
        // At one moment: nothing is waited for between these.
        let (moment, missed) = (looker.moment(), looker.take_missed());
        let events = self.house.look(looker.filter(), elsewhere);
        let took = began.elapsed();
        self.tell_before(looker, moment).await?;
        self.say(&FromDaemon::LookBegins { missed, pids: pid_namespace() }).await?;
        let took = took + self.say_events(events).await?;
        self.say(&FromDaemon::LookComplete).await?;
        Ok(Instant::now() + rest(took, self.house.lookers().count()))
    }

    /// Says these, in as many messages as it takes. How long it took to put them together.
    async fn say_events(&mut self, events: Vec<LookEvent>) -> Result<Duration, End> {
        let (mut part, mut count) = (BytesMut::new(), 0);
        let mut events = events.into_iter().peekable();
        let (mut began, mut took) = (Instant::now(), Duration::ZERO);
        while let Some(event) = events.next() {
            event.encode(&mut part).map_err(End::Stream)?;
            count += 1;
            if part.len() >= PART || events.peek().is_none() {
                encode_look_events(count, [&*part], self.stream.write_buffer_mut())
                    .map_err(End::Stream)?;
                took += began.elapsed();
                self.send().await?;
                began = Instant::now();
                part.clear();
                count = 0;
            }
        }
        Ok(took)
    }

    /// Says something, and waits until it is sent, or the looker has gone.
    async fn say(&mut self, message: &FromDaemon) -> Result<(), End> {
        Pin::new(&mut self.stream).start_send(message).map_err(End::Stream)?;
        self.send().await
    }

    /// Waits until all is sent, or the looker has gone; all who lock have their turn before that.
    async fn send(&mut self) -> Result<(), End> {
        yield_now().await;
        poll_fn(|context| flush(&mut self.stream, context)).await.map_err(End::Stream)
    }
}

/// Ends when the looker has gone, or has said something.
async fn gone(stream: &mut Stream) -> End {
    match stream.next().await {
        None => End::Gone,
        Some(Err(error)) => End::Stream(error),
        Some(Ok(_)) => Nonsense("it looks, and said something else").into(),
    }
}

/// For how long nobody is told anew who was just told, which took the daemon so long, while so many look.
fn rest(took: Duration, lookers: usize) -> Duration {
    took.saturating_mul(SHARE).saturating_mul(u32::try_from(lookers).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_are_told_anew_together_take_no_more_than_their_share() {
        let took = Duration::from_millis(20);
        for lookers in 1..=MOST {
            // One after the other, as fast as they may.
            let all = took * u32::try_from(lookers).unwrap();
            assert!(all * SHARE <= rest(took, lookers));
        }
    }
}
