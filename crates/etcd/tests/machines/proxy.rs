//! A cable that can be cut.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::frames::{Watches, pass_client, pass_server};

/// Passes on what it is given, until it is cut.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    joined: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    received: Arc<AtomicU64>,
    /// How many milliseconds what the server says takes.
    delay: Arc<AtomicU64>,
    /// Whether the watches hang; `None` if it does not know what it passes on.
    hang: Option<Arc<AtomicBool>>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        Self::new(port, None)
    }

    /// A cable by which watches can hang.
    pub(crate) fn with_frames(port: u16) -> Self {
        Self::new(port, Some(Arc::default()))
    }

    fn new(port: u16, hang: Option<Arc<AtomicBool>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            cut: Arc::default(),
            connections: Arc::default(),
            joined: Arc::default(),
            ended: Arc::default(),
            received: Arc::default(),
            delay: Arc::default(),
            hang,
        };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if accepting.cut.load(Ordering::SeqCst) {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                    accepting.join(&client, &server);
                }
            }
        });
        proxy
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn join(&self, client: &TcpStream, server: &TcpStream) {
        let (client, server) = (|| client.try_clone().unwrap(), || server.try_clone().unwrap());
        let mut connections = self.connections.lock().unwrap();
        self.joined.fetch_add(1, Ordering::SeqCst);
        if let Some(hang) = self.hang.clone() {
            let watches = Arc::<Watches>::default();
            connections.extend([client(), server()]);
            let (from, to) = (client(), server());
            let watching = Arc::clone(&watches);
            thread::spawn(move || drop(pass_client(from, to, &watching)));
            let (from, to) = (server(), client());
            thread::spawn(move || drop(pass_server(from, to, &watches, &hang)));
            return;
        }
        // What the client sends is not counted.
        let (sent, at_once) = (Arc::default(), Arc::default());
        let ways = [
            (client(), server(), &sent, &at_once),
            (server(), client(), &self.received, &self.delay),
        ];
        for (from, to, count, delay) in ways {
            connections.push(from.try_clone().unwrap());
            let ended = Arc::clone(&self.ended);
            let (count, delay) = (Arc::clone(count), Arc::clone(delay));
            thread::spawn(move || {
                pass(from, to, &count, &delay);
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    }

    /// How many connections there have been, and whether any has ended.
    pub(crate) fn history(&self) -> (usize, bool) {
        (self.joined.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst) > 0)
    }

    /// How many bytes the server has sent.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::SeqCst)
    }

    /// Has what the server says come so much later from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Has the watches hang from now on: nothing that they tell comes through.
    pub(crate) fn hang_watches(&self) {
        self.hang.as_ref().expect("it knows of watches").store(true, Ordering::SeqCst);
    }

    /// Ends all connections and lets no new ones come about.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.end_connections();
    }

    /// Ends all connections there are.
    pub(crate) fn end_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64, delay: &AtomicU64) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length) = from.read(&mut bytes) {
        count.fetch_add(length as u64, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(delay.load(Ordering::SeqCst)));
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
