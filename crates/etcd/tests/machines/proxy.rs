//! A cable that can be cut.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

/// Passes on what it is given, until it is cut.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    joined: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    received: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            cut: Arc::default(),
            connections: Arc::default(),
            joined: Arc::default(),
            ended: Arc::default(),
            received: Arc::default(),
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
        // What the client sends is not counted.
        let sent = Arc::default();
        for (from, to, count) in [(client(), server(), &sent), (server(), client(), &self.received)]
        {
            connections.push(from.try_clone().unwrap());
            let (ended, count) = (Arc::clone(&self.ended), Arc::clone(count));
            thread::spawn(move || {
                pass(from, to, &count);
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

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length) = from.read(&mut bytes) {
        count.fetch_add(length as u64, Ordering::SeqCst);
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
