//! A TCP proxy whose connections can be cut.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread,
};

use crate::{
    disturbance::With,
    events::{Events, now},
    history::{History, Interval, Trouble},
};

/// Passes on what it receives, until it is cut.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Where it leads.
    to: Arc<AtomicU16>,
    cut: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Starts a proxy to this port of this machine.
    pub(crate) fn to(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let proxy = Self {
            port: listener.local_addr()?.port(),
            to: Arc::new(port.into()),
            cut: Arc::default(),
            connections: Arc::default(),
        };
        let accepting = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.cut.load(Ordering::SeqCst) {
                    continue;
                }
                if let Ok(server) =
                    TcpStream::connect(("127.0.0.1", accepting.to.load(Ordering::SeqCst)))
                {
                    // A connection that cannot be passed on is closed.
                    let _ = accepting.join(&client, &server);
                }
            }
        });
        Ok(proxy)
    }

    fn join(&self, client: &TcpStream, server: &TcpStream) -> io::Result<()> {
        let ways = [
            (client.try_clone()?, server.try_clone()?),
            (server.try_clone()?, client.try_clone()?),
        ];
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in ways {
            connections.push(from.try_clone()?);
            thread::spawn(move || pass(from, to));
        }
        Ok(())
    }

    /// Ends all connections, and accepts no new ones.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Leads to another port from now on. Who is connected has to connect again.
    pub(crate) fn lead_to(&self, port: u16) {
        self.to.store(port, Ordering::SeqCst);
        if !self.cut.load(Ordering::SeqCst) {
            self.cut();
            self.mend();
        }
    }

    pub(crate) fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

/// The proxies of each machine, by which it reaches the store, and until when it is cut off.
pub(crate) struct Cables {
    of: Vec<Vec<Proxy>>,
    cut: Vec<Option<u64>>,
}

impl Cables {
    pub(crate) fn new(of: Vec<Vec<Proxy>>) -> Self {
        Self { cut: vec![None; of.len()], of }
    }

    /// Those of a machine.
    pub(crate) fn of(&self, machine: usize) -> &[Proxy] {
        &self.of[machine]
    }

    pub(crate) fn cut_off(&mut self, machine: usize, with: &mut With<'_>) -> Option<()> {
        if self.cut[machine].is_some() {
            return None;
        }
        with.events.say(format_args!("m{machine} is cut off for {}", with.during));
        self.of[machine].iter().for_each(Proxy::cut);
        with.history.troubles.push((Trouble::Cut, Some(machine), Interval::begin()));
        self.cut[machine] = Some(now() + with.during);
        Some(())
    }

    /// Connects the machines whose time is over.
    pub(crate) fn tick(&mut self, at: u64, events: &Events, history: &mut History) {
        for (machine, cut) in self.cut.iter_mut().enumerate() {
            if cut.take_if(|until| *until <= at).is_some() {
                events.say(format_args!("m{machine} is connected"));
                self.of[machine].iter().for_each(Proxy::mend);
                history.over(Trouble::Cut, Some(machine), 0);
            }
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length) = from.read(&mut bytes) {
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
