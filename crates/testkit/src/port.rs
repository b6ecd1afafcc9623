//! Ports for servers that a test starts as programs of their own.
//!
//! A port that the system chose (`127.0.0.1:0`) is free again as soon as it is closed. The system
//! may then give it to the next outgoing connection, or to the next program that asks for a port.
//! This can happen before the server starts, or while a test restarts the server. The system never
//! chooses the ports of this module. Of all processes that take ports by this module, only one has
//! a port at a time.

use std::{
    fmt,
    fs::{self, File},
    io,
    net::TcpListener,
    ops::RangeInclusive,
    path::Path,
};

use navlock_platform::{file_lock, user};

/// The first port. Lower ports may be well known, or may need rights.
const FIRST: u16 = 10_000;

/// The ports from which the system chooses, if the system does not report them.
const EPHEMERAL: RangeInclusive<u16> = 32_768..=u16::MAX;

/// A port of `127.0.0.1` that nobody else gets until this is dropped. Nobody listens at the port
/// yet.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The file is locked as long as this lives. It is never removed: otherwise, a process that
    /// waits for its lock would have another file.
    _lock: File,
}

impl Port {
    /// Takes a port.
    ///
    /// # Errors
    ///
    /// If the folder for temporary files cannot be written to, or no port is left.
    pub fn take() -> io::Result<Self> {
        let user = user::ours();
        let folder = std::env::temp_dir().join(format!("navlock-test-ports-{user}"));
        fs::create_dir_all(&folder)?;
        let ports = outside(&ephemeral());
        // Each process begins at another port. Most ports are free, so two processes seldom try the
        // same port.
        let start = usize::try_from(std::process::id()).unwrap_or_default() * 61 % ports.len();
        for &number in ports[start..].iter().chain(&ports[..start]) {
            if let Some(lock) = locked(&folder.join(number.to_string()))? {
                // A program that does not use these files may use the port.
                if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                    return Ok(Self { number, _lock: lock });
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no port is free for a server of a test"))
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }
}

/// The port as an address, such as `127.0.0.1:10000`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "127.0.0.1:{}", self.number)
    }
}

/// The locked file, or `None` if somebody else has locked it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    Ok(file_lock::try_exclusive(&file)?.then_some(file))
}

/// The ports from which the system chooses.
fn ephemeral() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = text.split_whitespace().map(str::parse);
    match (bounds.next(), bounds.next()) {
        (Some(Ok(first)), Some(Ok(last))) => first..=last,
        _ => EPHEMERAL,
    }
}

/// The ports outside of this range. If there are hardly any, all ports: then only the locks keep a
/// port.
fn outside(ephemeral: &RangeInclusive<u16>) -> Vec<u16> {
    let all = FIRST..=u16::MAX;
    let outside: Vec<_> = all.clone().filter(|port| !ephemeral.contains(port)).collect();
    if outside.len() < 256 { all.collect() } else { outside }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, thread};

    use super::*;

    #[test]
    fn each_port_is_one_holders_and_none_that_the_system_chooses() {
        let taking = || (0..8).map(|_| Port::take().unwrap()).collect::<Vec<_>>();
        let taken: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(taking)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let numbers: HashSet<_> = taken.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), 32);
        let chosen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ephemeral = ephemeral();
        assert!(ephemeral.contains(&chosen), "{chosen} is not in {ephemeral:?}");
        assert!(numbers.iter().all(|port| !ephemeral.contains(port)), "{numbers:?}");
    }

    #[test]
    fn a_port_at_which_somebody_listens_is_not_given_out() {
        let first = Port::take().unwrap().number();
        // If another process has this port by now, the port is in use as well.
        let _listener = TcpListener::bind(("127.0.0.1", first));
        assert_ne!(Port::take().unwrap().number(), first);
    }

    #[test]
    fn where_the_system_chooses_from_all_ports_all_may_be_taken() {
        assert_eq!(outside(&(32_768..=60_999)).len(), 22_768 + 4_536);
        assert_eq!(outside(&(1024..=u16::MAX)).len(), 55_536);
    }
}
