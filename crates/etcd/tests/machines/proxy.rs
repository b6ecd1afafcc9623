//! A cable that can be cut.

use std::{
    collections::HashSet,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::frames::{Frame, Frames};

/// Passes on what it is given, until it is cut.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    joined: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    received: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
    /// How many milliseconds what the server says takes.
    delay: Arc<AtomicU64>,
    watches: Arc<Mutex<Vec<Arc<Mutex<Watches>>>>>,
    /// Whether watches that begin from now on never tell anything.
    all_hang: Arc<AtomicBool>,
}

/// The watches of a connection, by their streams: those that tell, and those that never tell again.
#[derive(Default)]
struct Watches {
    telling: HashSet<u32>,
    hanging: HashSet<u32>,
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
            calls: Arc::default(),
            delay: Arc::default(),
            watches: Arc::default(),
            all_hang: Arc::default(),
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
        let watches = Arc::<Mutex<Watches>>::default();
        self.watches.lock().unwrap().push(Arc::clone(&watches));
        for is_sent in [true, false] {
            let (from, to) = if is_sent { (client(), server()) } else { (server(), client()) };
            connections.push(from.try_clone().unwrap());
            let (cable, watches) = (self.clone(), Arc::clone(&watches));
            thread::spawn(move || {
                if is_sent {
                    let mut frames = Frames::of_client();
                    pass(from, to, |bytes| {
                        frames.pass(bytes, |frame| cable.sends(frame, &watches))
                    });
                } else {
                    let mut frames = Frames::default();
                    pass(from, to, |bytes| {
                        cable.received.fetch_add(bytes.len() as u64, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(cable.delay.load(Ordering::SeqCst)));
                        let hanging = &watches.lock().unwrap().hanging;
                        frames.pass(bytes, |frame| !hanging.contains(&frame.stream()))
                    });
                }
                cable.ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    }

    /// Notes what the client sends.
    fn sends(&self, frame: &Frame, watches: &Mutex<Watches>) -> bool {
        self.calls.fetch_add(u64::from(frame.is_call()), Ordering::SeqCst);
        let watches = &mut *watches.lock().unwrap();
        if frame.is_watch() && !watches.hanging.contains(&frame.stream()) {
            let hangs = self.all_hang.load(Ordering::SeqCst);
            let of = if hangs { &mut watches.hanging } else { &mut watches.telling };
            of.insert(frame.stream());
        }
        true
    }

    /// How many connections there have been, and whether any has ended.
    pub(crate) fn history(&self) -> (usize, bool) {
        (self.joined.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst) > 0)
    }

    /// How many bytes the server has sent.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::SeqCst)
    }

    /// How many calls have been made.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Has no watch that there is tell anything any more. Returns how many streams of watches there are.
    pub(crate) fn hang(&self) -> usize {
        let all = self.watches.lock().unwrap();
        let hang = |watches: &Arc<Mutex<Watches>>| {
            let watches = &mut *watches.lock().unwrap();
            let count = watches.telling.len();
            watches.hanging.extend(watches.telling.drain());
            count
        };
        all.iter().map(hang).sum()
    }

    /// Has all watches hang from now on, also those that are begun later.
    pub(crate) fn hang_watches(&self) {
        self.all_hang.store(true, Ordering::SeqCst);
        self.hang();
    }

    /// How many streams of watches have been begun since the others hang.
    pub(crate) fn telling(&self) -> usize {
        self.watches.lock().unwrap().iter().map(|of| of.lock().unwrap().telling.len()).sum()
    }

    /// Has what the server says come so much later from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
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

/// Passes on what `passed` makes of what comes.
fn pass(mut from: TcpStream, mut to: TcpStream, mut passed: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length) = from.read(&mut bytes) {
        if length == 0 || to.write_all(&passed(&bytes[..length])).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
