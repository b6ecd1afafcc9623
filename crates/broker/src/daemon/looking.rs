//! The connection of a looker.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use navlock_core::look::LookOptions;
use navlock_wire::FromDaemon;
use tokio::sync::mpsc;

use super::{
    guests::{Guest, LOOKERS, View},
    lookers::CHECK_INTERVAL,
    picture::SLICE,
    session_ends::{End, ProtocolError},
    state::Daemon,
    stream::Stream,
    telling::{LookStep, Teller},
    timers::sleep_until,
};

/// How often a connection asks for the locks of other machines.
const ASK: Duration = Duration::from_secs(1);

/// A looker that follows events is refused if there are this many lookers, any other looker if there are
/// twice as many. The reason is that a picture may wait in memory for each of them.
const MOST: usize = 64;

/// A looker gets a new picture when it was too slow, or when locks of other machines have changed. Between
/// pictures the daemon pauses for at least this many times as long as the pictures take it, however many
/// lookers there are.
const SHARE: u32 = 10;

/// A looker that has missed events during this many pictures in a row gets a picture that is made
/// in one turn of the daemon.
const TRIES: u32 = 3;

/// A looker's connection, and what it asked for.
pub(super) struct Looking {
    pub(super) stream: Stream,
    pub(super) daemon: Arc<Daemon>,
    pub(super) options: LookOptions,
    /// Whose connection it is, where several users share the daemon.
    pub(super) guest: Option<Guest>,
}

impl Looking {
    /// Sends a picture, and then events until the looker has gone.
    pub(super) async fn serve(mut self) -> End {
        self.try_serve().await.err().unwrap_or(End::Gone)
    }

    async fn try_serve(&mut self) -> Result<(), End> {
        self.until_recovered().await?;
        let most = if self.options.once { 2 * MOST } else { MOST };
        if self.daemon.lookers.count() >= most {
            let reason = format!("{most} look at it already; end one of these first");
            self.stream.send(&FromDaemon::Refused { reason }).await?;
            return Err(End::Refused);
        }
        let user = self.guest.as_ref().map(|guest| Arc::clone(guest.user()));
        let _turn = match &user {
            Some(user) if self.options.once => user.may_look_once().await,
            _ => None,
        };
        let follows = !self.options.once;
        if self.guest.as_mut().is_some_and(|guest| follows && !guest.may_look()) {
            let reason = format!(
                "this user has {LOOKERS} programs that look, as many as one user may have; end some"
            );
            self.stream.send(&FromDaemon::Refused { reason }).await?;
            return Err(End::Refused);
        }
        let view = self.guest.as_ref().and_then(|guest| View::of(guest.user()));
        let looker = Arc::new(self.daemon.lookers.add(self.options.clone()));
        let mut elsewhere = Arc::new(self.daemon.look_elsewhere(&self.options).await);
        let stream = self.stream.socket.member().another()?;
        let (pictures, shown) = mpsc::channel(1);
        let (says, mut said) = mpsc::channel(1);
        let (teller, follow) = (Arc::clone(&looker), !self.options.once);
        let tell =
            async move { Teller::new(teller, stream, view)?.tell(shown, says, follow).await };
        // A panic there ends the session, as a panic of this task would.
        let (tell, mut telling) = tell.remote_handle();
        self.daemon.lookers.tasks().unwrap_or(&self.daemon.tasks).spawn(tell);
        let (mut check, mut ask) = (Instant::now() + CHECK_INTERVAL, Instant::now() + ASK);
        // When the next picture has to be made, whether the last picture was sent, and whether the locks of
        // other machines have to be asked for first.
        let (mut next, mut is_told, mut ask_elsewhere) = (Some(Instant::now()), true, false);
        let (mut pause_until, mut torn) = (Instant::now(), 0);
        loop {
            let is_leased = self.daemon.user_agent.is_leased();
            tokio::select! {
                end = gone(&mut self.stream) => return Err(end),
                told = &mut telling => return told,
                Some(said) = said.recv() => match said {
                    LookStep::Told => (is_told, torn) = (true, 0),
                    LookStep::Behind => (next, ask_elsewhere) = (Some(pause_until), true),
                    LookStep::Torn => {
                        (is_told, torn) = (true, torn + 1);
                        (next, ask_elsewhere) = (Some(pause_until), true);
                    }
                },
                () = sleep_until(next.unwrap_or(pause_until)), if is_told && next.is_some() => {
                    if mem::take(&mut ask_elsewhere) {
                        elsewhere = Arc::new(self.daemon.look_elsewhere(&self.options).await);
                    }
                    let slice = if torn < TRIES { SLICE } else { usize::MAX };
                    let (picture, took) = self.daemon.picture(&looker, &elsewhere, slice).await;
                    pause_until = Instant::now() + rest(took, self.daemon.lookers.count());
                    (next, is_told) = (None, false);
                    // There is room, because the picture before was sent. If the teller has ended,
                    // the branch above notices that.
                    _ = pictures.try_send(picture);
                }
                () = sleep_until(check), if !is_leased => {
                    self.daemon.look_anew_now_and_then();
                    check = Instant::now() + CHECK_INTERVAL;
                }
                () = sleep_until(ask), if is_leased => {
                    let now = self.daemon.look_elsewhere(&self.options).await;
                    if !now.is_same(&elsewhere, &self.daemon.directory.agents()) {
                        elsewhere = Arc::new(now);
                        next = Some(pause_until);
                    }
                    ask = Instant::now() + ASK;
                }
            }
        }
    }

    /// Waits until the recovery is over. Before that, a picture would show that nobody holds
    /// anything.
    async fn until_recovered(&mut self) -> Result<(), End> {
        if self.daemon.recovery.is_over() {
            return Ok(());
        }
        self.stream.send(&FromDaemon::Recovering).await?;
        let daemon = Arc::clone(&self.daemon);
        tokio::select! {
            () = daemon.recovery.over() => Ok(()),
            end = gone(&mut self.stream) => Err(end),
        }
    }
}

/// Returns when the looker has gone, or has sent something, which it must not.
async fn gone(stream: &mut Stream) -> End {
    match stream.next().await {
        Err(end) => end,
        Ok(_) => ProtocolError("it looks, and said something else").into(),
    }
}

/// The pause before a looker's next picture, if the last picture took the daemon this long and there
/// are this many lookers.
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
            // Pictures are made for all lookers, one after the other, as often as is permitted.
            let all = took * u32::try_from(lookers).unwrap();
            assert!(all * SHARE <= rest(took, lookers));
        }
    }
}
