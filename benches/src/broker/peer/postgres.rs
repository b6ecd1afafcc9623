//! `PostgreSQL`'s advisory locks over a Unix socket, by statements prepared once.

use std::{
    ffi::OsStr,
    fs,
    io::{self, BufReader, Read, Write},
    os::unix::{fs::chown, net::UnixStream},
    path::{Path, PathBuf},
};

use super::{
    super::participant::{Participant, User},
    client,
    installed::{find, user},
};

const USER: &str = "bench";

/// Starts a server with a database of its own. It listens at its socket alone, which is returned.
pub(super) fn start(cpu: usize, directory: &Path) -> io::Result<(PathBuf, Participant)> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let server = program("postgres").ok_or_else(missing)?;
    let maker = program("initdb").ok_or_else(missing)?;
    // PostgreSQL refuses to run as root.
    let user = if rustix::process::geteuid().is_root() { other_than_root() } else { None };
    if let Some(User { uid, gid }) = user {
        chown(directory, Some(uid), Some(gid))?;
    }
    let data = directory.join("data");
    let arguments: [&OsStr; 6] = [
        "--pgdata".as_ref(),
        data.as_ref(),
        "--username=bench".as_ref(),
        "--auth=trust".as_ref(),
        "--no-sync".as_ref(),
        "--no-locale".as_ref(),
    ];
    Participant::server(cpu, &maker, &arguments, user)?.end()?;
    let mut sockets = std::ffi::OsString::from("unix_socket_directories=");
    sockets.push(directory);
    let arguments: [&OsStr; 7] = [
        "-D".as_ref(),
        data.as_ref(),
        // Nothing has to survive a crash, so nothing is forced to the disk.
        "-F".as_ref(),
        "-c".as_ref(),
        "listen_addresses=".as_ref(),
        "-c".as_ref(),
        &sockets,
    ];
    let mut participant = Participant::server(cpu, &server, &arguments, user)?;
    participant.read_until("ready to accept connections")?;
    Ok((directory.join(".s.PGSQL.5432"), participant))
}

/// One of the programs of Postgres: the newest, if Debian has several versions side by side.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    versions.reverse();
    find(name, &versions)
}

fn other_than_root() -> Option<User> {
    user("postgres").or_else(|| user("nobody"))
}

pub(super) struct Client {
    stream: BufReader<UnixStream>,
    lock: Vec<u8>,
    unlock: Vec<u8>,
}

impl Client {
    pub(super) fn connect(place: &Path) -> io::Result<Self> {
        let mut client = Self {
            stream: BufReader::new(UnixStream::connect(place)?),
            lock: execute("lock"),
            unlock: execute("unlock"),
        };
        client.ask(&greeting())?;
        client.ask(&prepare("lock", "SELECT pg_advisory_lock(42)"))?;
        client.ask(&prepare("unlock", "SELECT pg_advisory_unlock(42)"))?;
        Ok(client)
    }

    fn ask(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(messages)?;
        hear(&mut self.stream)
    }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        let Self { stream, lock, .. } = self;
        stream.get_mut().write_all(lock)?;
        hear(stream)
    }

    /// Waits for the answer, as every statement does.
    fn release(&mut self) -> io::Result<()> {
        let Self { stream, unlock, .. } = self;
        stream.get_mut().write_all(unlock)?;
        hear(stream)
    }
}

/// Hears messages until the server is ready for the next statement.
fn hear(from: &mut impl Read) -> io::Result<()> {
    let mut failure = None;
    loop {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length).saturating_sub(4);
        let mut body = vec![0; length as usize];
        from.read_exact(&mut body)?;
        match kind {
            b'Z' => return failure.map_or(Ok(()), |why| Err(io::Error::other(why))),
            b'E' => {
                let fields = String::from_utf8_lossy(&body);
                let text = fields.split('\0').find_map(|field| field.strip_prefix('M'));
                failure = Some(format!("PostgreSQL: {}", text.unwrap_or("an error")));
            }
            _ => {}
        }
    }
}

fn greeting() -> Vec<u8> {
    const VERSION: u32 = 3 << 16;
    let mut body = VERSION.to_be_bytes().to_vec();
    body.extend_from_slice(format!("user\0{USER}\0database\0postgres\0\0").as_bytes());
    with_length(&body)
}

fn prepare(name: &str, statement: &str) -> Vec<u8> {
    let parse = message(b'P', format!("{name}\0{statement}\0\0\0").as_bytes());
    [parse, message(b'S', &[])].concat()
}

/// Binds no parameters, and asks for all rows, as text.
fn execute(name: &str) -> Vec<u8> {
    let bind = message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
    [bind, message(b'E', &[0; 5]), message(b'S', &[])].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [vec![kind], with_length(body)].concat()
}

/// A message's body after its length, which counts its own four bytes.
fn with_length(body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + body.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::{execute, hear, message};

    #[test]
    fn a_statement_is_bound_executed_and_ended() {
        let bytes = b"B\0\0\0\x0d\0a\0\0\0\0\0\0\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(execute("a"), bytes);
    }

    #[test]
    fn an_error_is_told_once_the_server_is_ready_again() {
        let said = [message(b'E', b"SERROR\0Mno such thing\0\0"), message(b'Z', b"I")].concat();
        let error = hear(&mut &*said).unwrap_err();
        assert_eq!(error.to_string(), "PostgreSQL: no such thing");
        assert!(hear(&mut &*message(b'Z', b"I")).is_ok());
    }
}
