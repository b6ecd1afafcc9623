//! How a session begins: both sides agree on a version, and the client introduces itself.

use std::{future::pending, io, sync::Arc};

use bytes::BytesMut;
use navlock_core::look::LookOptions;
use navlock_platform::{readiness::Member, socket};
use navlock_wire::{ClientKey, FileTask, FromDaemon, Status, ToDaemon, VERSION, encode, negotiate};

use super::{
    claims::Claims,
    connected::ConnectedClient,
    guests::Guest,
    looking::Looking,
    process::Process,
    session::{Admission, Session},
    session_ends::{End, ProtocolError},
    shared_client::lock,
    state::Daemon,
    stealing::Steal,
    stream::Stream,
};

/// How many questions may come on one connection before an introduction.
const QUESTIONS: usize = 64;

/// How many claims of one client are taken in before others have a turn, where several users share the daemon.
const CLAIMS_IN_A_TURN: usize = 256;

/// A connection that has not introduced itself yet.
pub(super) struct NewConnection {
    stream: Stream,
    daemon: Arc<Daemon>,
    /// Why the connection is turned away as a client, if it is.
    turned_away: Option<String>,
    process: Option<Process>,
    /// Whose connection it is, where several users share the daemon.
    guest: Option<Guest>,
}

/// What a connection introduces itself as.
enum Introduction {
    Client { key: ClientKey, returning: bool },
    Looker(LookOptions),
}

/// What a connection becomes by its introduction.
pub(super) enum Introduced {
    Client(Box<Admission>, Claims),
    Looker(Looking),
}

impl NewConnection {
    /// # Errors
    ///
    /// If there is no memory left.
    pub(super) fn new(
        stream: socket::Stream,
        process: Option<Process>,
        daemon: Arc<Daemon>,
    ) -> io::Result<Self> {
        let stream = Stream::new(stream)?;
        Ok(Self { stream, daemon, turned_away: None, process, guest: None })
    }

    /// Sets whose connection it is, where several users share the daemon.
    pub(super) fn of(mut self, guest: Option<Guest>) -> Self {
        self.guest = guest;
        self
    }

    /// Says why this connection cannot become a client. It may ask and look all the same.
    pub(super) fn turned_away(mut self, why: String) -> Self {
        self.turned_away = Some(why);
        self
    }

    /// Agrees on a version, and reads the introduction and the claims, or what a looker wants to
    /// see.
    pub(super) async fn introduce(mut self) -> Result<Introduced, End> {
        self.shake_hands().await?;
        let (client, returning) = match self.read_introduction().await? {
            Introduction::Client { key, returning } => (key, returning),
            Introduction::Looker(options) => {
                let Self { stream, daemon, guest, .. } = self;
                return Ok(Introduced::Looker(Looking { stream, daemon, options, guest }));
            }
        };
        let process = self.process.take();
        let guest = self.guest.take();
        if guest.as_ref().is_some_and(|guest| !guest.user().has(client)) {
            return Err(ProtocolError("it spoke for a client of another user").into());
        }
        // Where locks are leased, a client has its locks whether it comes in time or not.
        let in_time = returning && !self.daemon.user_agent.is_leased();
        if in_time {
            self.daemon.recovery.hears().await;
        }
        let mut connected = self.daemon.enter(client, returning, process);
        if let Some(Err(error)) = guest.map(|guest| connected.admit(guest)) {
            let reason =
                format!("it cannot note what you hold, and so you may hold nothing: {error}");
            self.stream.send(&FromDaemon::Refused { reason }).await?;
            return Err(End::Refused);
        }
        let mut claims = Claims::default();
        if returning {
            let daemon = Arc::clone(&self.daemon);
            claims = tokio::select! {
                biased;
                claims = self.hear_claims(&connected) => claims?,
                () = daemon.recovery.closes(), if in_time => return Err(End::Late),
            };
        }
        lock(&connected.client).has_claimed();
        let Self { stream, daemon, .. } = self;
        let admission = Admission::new(stream, Session::new(connected, daemon));
        Ok(Introduced::Client(Box::new(admission), claims))
    }

    /// Reads what a client claims that has come back.
    async fn hear_claims(&mut self, connected: &ConnectedClient) -> Result<Claims, End> {
        let mut claims = Claims::by_clock(connected.ahead);
        let mut heard = 0;
        loop {
            let message = self.stream.next().await?;
            if connected.user().is_some() {
                let (claimed, bytes) = claims.size();
                connected.count(claimed, bytes);
                heard += 1;
                if heard % CLAIMS_IN_A_TURN == 0 {
                    self.daemon.next_turn.passes().await;
                }
            }
            if connected.user().is_some_and(|user| !self.daemon.counts(user, &message)) {
                continue;
            }
            if claims.handle_message(&mut lock(&connected.client), message)?.is_break() {
                return Ok(claims);
            }
        }
    }

    /// Reads the introduction. Questions about the daemon, and a request that the daemon end, need no
    /// introduction: they come from no client, and are answered even during a recovery.
    async fn read_introduction(&mut self) -> Result<Introduction, End> {
        let user = self.guest.as_ref().map(|guest| Arc::clone(guest.user()));
        for _ in 0..QUESTIONS {
            let question = self.stream.next().await?;
            let _turn = match &user {
                Some(user) => user.may_ask().await,
                None => None,
            };
            let answer = match question {
                ToDaemon::Introduce { client, returning } => {
                    let Some(reason) = self.turned_away.take() else {
                        return Ok(Introduction::Client { key: client, returning });
                    };
                    self.stream.send(&FromDaemon::Refused { reason }).await?;
                    return Err(End::Refused);
                }
                ToDaemon::Status { query } => {
                    let details = self.daemon.details();
                    FromDaemon::Status { query, status: Status { details, ..self.daemon.status() } }
                }
                ToDaemon::Log { query, filter } => {
                    let outcome = match self.forbidden() {
                        Some(why) => Err(why),
                        None => self.daemon.set_log(&filter),
                    };
                    FromDaemon::Logs { query, outcome }
                }
                ToDaemon::File { client, task } => {
                    self.give_file(client, &task).await?;
                    self.daemon.next_turn.passes().await;
                    continue;
                }
                ToDaemon::Steal { query, bucket, name, from, info } => {
                    self.daemon.next_turn.passes().await;
                    let user = user.clone();
                    let steal = Steal { bucket, name, from, info, user };
                    let outcome = self.daemon.steal(steal, self.process.clone()).await;
                    // The victims are told first.
                    self.daemon.next_turn.passes().await;
                    FromDaemon::Stolen { query, outcome }
                }
                ToDaemon::Look { bucket, name, follow } => {
                    self.daemon.next_turn.passes().await;
                    // Every looker gets a picture, but it gets events only if there is room.
                    if let Some(reason) = self.turned_away.take_if(|_| follow) {
                        self.stream.send(&FromDaemon::Refused { reason }).await?;
                        return Err(End::Refused);
                    }
                    let mut options = LookOptions::default();
                    (options.bucket, options.name, options.once) = (bucket, name, !follow);
                    return Ok(Introduction::Looker(options));
                }
                ToDaemon::Stop => {
                    if let Some(reason) = self.forbidden() {
                        self.stream.send(&FromDaemon::Refused { reason }).await?;
                        return Err(End::Refused);
                    }
                    self.stream.send(&FromDaemon::Stopping).await?;
                    self.daemon.stopped.notify_one();
                    // The connection stays open until the daemon ends, so that the other side
                    // learns of that end.
                    return pending().await;
                }
                _ => return Err(ProtocolError("it did not introduce itself").into()),
            };
            self.stream.send(&answer).await?;
            // Questions may come one after the other without a pause. So other tasks get their turn here,
            // and the timeout is checked.
            self.daemon.next_turn.passes().await;
        }
        Err(ProtocolError("it asked too many questions and did not introduce itself").into())
    }

    /// Why this connection may not end the daemon or change how it works, if it may not.
    fn forbidden(&self) -> Option<String> {
        let guest = self.guest.as_ref().filter(|guest| !guest.user().may_all())?;
        let name = guest.user().name();
        Some(format!(
            "{name} may not end the broker or set what it logs; only root and the user whose process it is may do so"
        ))
    }

    /// Does something with a file of a client, and gives the file to the other end if one was made.
    async fn give_file(&mut self, client: ClientKey, task: &FileTask) -> Result<(), End> {
        let process = self.process.as_ref().map(Process::number);
        let done = self.daemon.serve_file(self.guest.as_ref(), client, process, task);
        let Ok(Some([locked, other])) = done else {
            let outcome = done.map(drop);
            return self.stream.send(&FromDaemon::File { outcome }).await;
        };
        let mut answer = BytesMut::new();
        encode(&FromDaemon::File { outcome: Ok(()) }, &mut answer)?;
        // There is room for this short answer as a whole, because nothing else waits to be sent.
        let send = |member: &Member| member.send_with_files(&answer, [&locked, &other]);
        let done = self.stream.socket.when_room(send).await;
        Ok(done.map(drop)?)
    }

    /// Agrees on a version.
    async fn shake_hands(&mut self) -> Result<(), End> {
        let ToDaemon::Hello { oldest, newest } = self.stream.next().await? else {
            return Err(ProtocolError("it did not begin with Hello").into());
        };
        let Some(version) = negotiate(oldest, newest) else {
            let reason = format!(
                "it speaks version {VERSION} of the protocol and you {oldest} to {newest}; \
                 `navlock daemon stop` ends it, and a new one starts"
            );
            // A connection that is turned away anyway is told why, because another daemon would not
            // help it.
            let reason = self.turned_away.take().unwrap_or(reason);
            self.stream.send(&FromDaemon::Refused { reason }).await?;
            return Err(End::Refused);
        };
        let reach = self.daemon.reach().map(str::to_owned);
        self.stream.send(&FromDaemon::Welcome { version, reach }).await
    }
}
