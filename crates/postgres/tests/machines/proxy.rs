//! A cable that can be cut, or that loses what the server says.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Passes on what it is given, until it is cut.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    loses: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            cut: Arc::default(),
            loses: Arc::default(),
            connections: Arc::default(),
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
        for (from, to, is_answer) in [(client, server, false), (server, client, true)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            self.connections.lock().unwrap().push(from.try_clone().unwrap());
            let loses = Arc::clone(&self.loses);
            thread::spawn(move || {
                pass(from, to, |to, bytes| {
                    if is_answer && loses.load(Ordering::SeqCst) {
                        Ok(())
                    } else {
                        to.write_all(bytes)
                    }
                });
            });
        }
    }

    /// From now on nothing comes through any more.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.end_connections();
    }

    /// From now on no answer comes through, or again each does. The connections on which some were lost end.
    pub(crate) fn lose_answers(&self, loses: bool) {
        self.loses.store(loses, Ordering::SeqCst);
        if !loses {
            self.end_connections();
        }
    }

    fn end_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    write: impl Fn(&mut TcpStream, &[u8]) -> std::io::Result<()>,
) {
    let mut bytes = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if write(&mut to, &bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
