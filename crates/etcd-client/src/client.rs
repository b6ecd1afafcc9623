//! The connection, and how a call is made.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use http::{Uri, uri::PathAndQuery};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint, channel::Change},
};
use tonic_prost::ProstCodec;

use crate::{
    ConnectOptions, Error,
    messages::{
        AuthenticateRequest, AuthenticateResponse, MemberListRequest, MemberListResponse,
        StatusRequest, StatusResponse,
    },
};

type Token = MetadataValue<Ascii>;

/// A connection to etcd. Clones share it.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    shared: Arc<Shared>,
}

struct Shared {
    endpoints: Vec<String>,
    /// Has the channel connect to an endpoint in another way.
    change: mpsc::Sender<Change<Uri, Endpoint>>,
    require_leader: bool,
    user: Mutex<Option<(String, String)>>,
    token: Mutex<Option<Token>>,
    /// Held while logging in: of many calls that find the token expired, only one logs in.
    login: tokio::sync::Mutex<()>,
}

impl Client {
    /// Connects to these endpoints, each `host:port` or a URL. Calls go to an endpoint that can be reached.
    /// Without a user nothing is sent yet: the first call finds out whether a server is there, and waits for
    /// it.
    ///
    /// # Errors
    ///
    /// An endpoint makes no sense; with a user, also whatever keeps it from logging in.
    pub async fn connect<E: AsRef<str>>(
        endpoints: impl IntoIterator<Item = E>,
        options: Option<ConnectOptions>,
    ) -> Result<Self, Error> {
        let options = options.unwrap_or_default();
        let endpoints = endpoints.into_iter().map(|endpoint| endpoint.as_ref().to_owned());
        Self::connect_to(endpoints.collect(), options).await
    }

    async fn connect_to(endpoints: Vec<String>, options: ConnectOptions) -> Result<Self, Error> {
        if endpoints.is_empty() {
            return Err(Error::InvalidArgs("there is no endpoint".to_owned()));
        }
        let built = changes(&endpoints, &options)?;
        // A channel of this kind, also with one endpoint, goes on trying to connect while a call waits.
        let (channel, change) = Channel::balance_channel(endpoints.len());
        for insert in built {
            // The channel is there to receive it, and has room for all.
            let _ = change.send(insert).await;
        }
        let (user, token) = (Mutex::new(options.user), Mutex::default());
        let shared = Shared {
            endpoints,
            change,
            require_leader: options.require_leader,
            user,
            token,
            login: tokio::sync::Mutex::default(),
        };
        let client = Self { channel, shared: Arc::new(shared) };
        client.log_in(None).await?;
        Ok(client)
    }

    /// Makes all further connections with these options, and logs in with their user from now on.
    /// Certificates and passwords may be good for a short time only. Calls that are under way keep their
    /// connections.
    ///
    /// # Errors
    ///
    /// The options make no sense, or too much is on its way. Nothing is changed then.
    pub fn renew(&self, options: &ConnectOptions) -> Result<(), Error> {
        let changes = changes(&self.shared.endpoints, options)?;
        let room = self.shared.change.try_reserve_many(changes.len());
        // The error says only that there is no room.
        let room = room.map_err(|_| Error::Closed)?;
        room.zip(changes).for_each(|(room, change)| room.send(change));
        self.shared.user.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&options.user);
        Ok(())
    }

    /// What the member says of itself.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn status(&mut self) -> Result<StatusResponse, Error> {
        self.unary("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    /// The members of the cluster, as the member that is asked knows them.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn member_list(&mut self) -> Result<MemberListResponse, Error> {
        self.unary("/etcdserverpb.Cluster/MemberList", MemberListRequest {}).await
    }

    /// Makes a call with one request and one answer, also one for which this crate has no message. The path
    /// is that of the method.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn unary<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let token = self.token();
        match self.ask(path, self.signed(question.clone())).await {
            Err(error) => {
                self.log_in_again(error, token).await?;
                self.ask(path, self.signed(question)).await
            }
            answer => answer,
        }
    }

    /// Messages there, of which this is the first, and messages back. Etcd ends the stream when the
    /// sender is dropped.
    pub(crate) async fn streaming<Q, A>(
        &self,
        path: &'static str,
        first: Q,
    ) -> Result<(mpsc::Sender<Q>, Streaming<A>), Error>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let token = self.token();
        match self.open(path, first.clone()).await {
            Err(error) => {
                self.log_in_again(error, token).await?;
                self.open(path, first).await
            }
            opened => opened,
        }
    }

    async fn open<Q, A>(
        &self,
        path: &'static str,
        first: Q,
    ) -> Result<(mpsc::Sender<Q>, Streaming<A>), Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (ask, asked) = mpsc::channel(1);
        // It is empty, and `asked` is here.
        let _ = ask.try_send(first);
        let request = self.signed(ReceiverStream::new(asked));
        let path = PathAndQuery::from_static(path);
        let mut grpc = self.grpc().await?;
        let answers = grpc.streaming(request, path, ProstCodec::default()).await?;
        Ok((ask, answers.into_inner()))
    }

    /// Logs in again if a call failed only because its token had expired.
    async fn log_in_again(&self, error: Error, token: Option<Token>) -> Result<(), Error> {
        match error {
            Error::GRpcStatus(status) if self.is_expired(&status) => self.log_in(token).await,
            error => Err(error),
        }
    }

    fn is_expired(&self, status: &tonic::Status) -> bool {
        // The services that etcd has built above its own client lose the code.
        let says_so = || status.message().contains("invalid auth token");
        self.user().is_some()
            && (status.code() == Code::Unauthenticated
                || status.code() == Code::Unknown && says_so())
    }

    /// Gets a token, unless another one has replaced the useless one already. Etcd checks passwords slowly,
    /// on purpose. If the caller stops waiting, the next call finds the new token.
    async fn log_in(&self, useless: Option<Token>) -> Result<(), Error> {
        let Some(user) = self.user() else { return Ok(()) };
        let client = self.clone();
        let login = tokio::spawn(async move { client.log_in_as(user, useless).await });
        login.await.map_err(Error::Login)?
    }

    async fn log_in_as(
        &self,
        (name, password): (String, String),
        useless: Option<Token>,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.shared.login.lock().await;
        if self.token() != useless {
            return Ok(());
        }
        let question = self.led(Request::new(AuthenticateRequest { name, password }));
        let answer: AuthenticateResponse =
            self.ask("/etcdserverpb.Auth/Authenticate", question).await?;
        let token = answer.token.parse().map_err(Error::InvalidToken)?;
        *self.shared.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
        Ok(())
    }

    fn user(&self) -> Option<(String, String)> {
        self.shared.user.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn token(&self) -> Option<Token> {
        self.shared.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask<Q, A>(&self, path: &'static str, question: Request<Q>) -> Result<A, Error>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::from_static(path);
        let answer = self.grpc().await?.unary(question, path, ProstCodec::default()).await?;
        Ok(answer.into_inner())
    }

    async fn grpc(&self) -> Result<tonic::client::Grpc<Channel>, Error> {
        let grpc = tonic::client::Grpc::new(self.channel.clone());
        // Etcd is trusted: a list may have any length.
        let mut grpc = grpc.max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| tonic::Status::from_error(error.into()))?;
        Ok(grpc)
    }

    /// A request with all that etcd wants to know beside it.
    fn signed<T>(&self, content: T) -> Request<T> {
        let mut request = self.led(Request::new(content));
        if let Some(token) = self.token() {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    fn led<T>(&self, mut request: Request<T>) -> Request<T> {
        if self.shared.require_leader {
            request.metadata_mut().insert("hasleader", Token::from_static("true"));
        }
        request
    }
}

/// What makes these endpoints be connected to so.
fn changes(
    endpoints: &[String],
    options: &ConnectOptions,
) -> Result<Vec<Change<Uri, Endpoint>>, Error> {
    let insert = |endpoint: &String| {
        let endpoint = options.endpoint(endpoint)?;
        Ok(Change::Insert(endpoint.uri().clone(), endpoint))
    };
    endpoints.iter().map(insert).collect()
}

/// Without user, password and token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
