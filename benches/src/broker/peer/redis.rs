//! Redis over a Unix socket, as its users lock with it: `SET NX PX`, and a script that deletes the key only
//! if it is still theirs. Redis has no queue, so a handover is that of a token in a list.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufReader, Write},
    iter,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use super::{
    super::{participant::Participant, row::NAME},
    client::{self, Turn},
    installed::find,
};

/// The script that <https://redis.io/docs/latest/commands/set/> gives for it.
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] \
                      then return redis.call('del', KEYS[1]) else return 0 end";

const LIST: &str = "documents/42/baton";

/// Starts a server that keeps nothing on disk and listens nowhere else.
pub(super) fn start(cpu: usize, directory: &Path, socket: &Path) -> io::Result<Participant> {
    let program = program().ok_or(io::ErrorKind::NotFound)?;
    let arguments: [&OsStr; 12] = [
        "--port".as_ref(),
        "0".as_ref(),
        "--unixsocket".as_ref(),
        socket.as_ref(),
        "--dir".as_ref(),
        directory.as_ref(),
        "--save".as_ref(),
        "".as_ref(),
        "--appendonly".as_ref(),
        "no".as_ref(),
        "--daemonize".as_ref(),
        "no".as_ref(),
    ];
    let mut participant = Participant::server(cpu, &program, &arguments, None)?;
    participant.read_until("ready to accept connections")?;
    Ok(participant)
}

/// The path of Redis's server.
pub(super) fn program() -> Option<PathBuf> {
    find("redis-server", &[])
}

/// A lock in a key.
pub(super) struct Client {
    connection: Connection,
    lock: Vec<u8>,
    unlock: Vec<u8>,
}

impl Client {
    pub(super) fn connect(place: &Path) -> io::Result<Self> {
        const OWNER: &str = "5e0e4a56-5a0a-4d55-a7b2-4cfa8e5e3a63";
        let mut connection = Connection::open(place)?;
        let script = connection.ask(&command(&["SCRIPT", "LOAD", UNLOCK]))?;
        let lock = command(&["SET", NAME, OWNER, "NX", "PX", "30000"]);
        let unlock = command(&["EVALSHA", &script, "1", NAME, OWNER]);
        Ok(Self { connection, lock, unlock })
    }
}

impl client::Client for Client {
    fn acquire(&mut self) -> io::Result<()> {
        expect("OK", &self.connection.ask(&self.lock)?)
    }

    /// Waits for the answer, which says whether the lock was still ours.
    fn release(&mut self) -> io::Result<()> {
        expect("1", &self.connection.ask(&self.unlock)?)
    }
}

/// A token in a list. The process that has the token puts it back.
pub(super) struct Baton {
    connection: Connection,
    take: Vec<u8>,
    put: Vec<u8>,
}

impl Baton {
    pub(super) fn connect(place: &Path, turn: Turn) -> io::Result<Self> {
        let mut connection = Connection::open(place)?;
        let (take, put) = (command(&["BLPOP", LIST, "0"]), command(&["RPUSH", LIST, "baton"]));
        if turn == Turn::First {
            connection.ask(&command(&["DEL", LIST]))?;
            connection.ask(&put)?;
        }
        Ok(Self { connection, take, put })
    }
}

impl client::Client for Baton {
    fn acquire(&mut self) -> io::Result<()> {
        expect("baton", &self.connection.ask(&self.take)?)
    }

    fn release(&mut self) -> io::Result<()> {
        self.connection.ask(&self.put).map(drop)
    }
}

fn expect(expected: &str, answer: &str) -> io::Result<()> {
    if answer == expected { Ok(()) } else { Err(io::Error::other(format!("Redis: {answer}"))) }
}

fn command(words: &[&str]) -> Vec<u8> {
    let count = format!("*{}\r\n", words.len());
    let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    iter::once(count).chain(words).collect::<String>().into_bytes()
}

struct Connection(BufReader<UnixStream>);

impl Connection {
    fn open(place: &Path) -> io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(place)?)))
    }

    fn ask(&mut self, command: &[u8]) -> io::Result<String> {
        self.0.get_mut().write_all(command)?;
        answer(&mut self.0)
    }
}

/// The answer, or the last part of one that has several.
fn answer(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let line = line.trim_end();
    let what = line.get(..1).ok_or(io::ErrorKind::UnexpectedEof)?;
    let rest = &line[1..];
    match what {
        "+" | ":" => Ok(rest.to_owned()),
        "$" | "*" if rest == "-1" => Ok("nothing".to_owned()),
        "$" => {
            let length: usize = rest.parse().map_err(io::Error::other)?;
            let mut text = vec![0; length + 2];
            from.read_exact(&mut text)?;
            text.truncate(length);
            String::from_utf8(text).map_err(io::Error::other)
        }
        "*" => {
            let mut last = String::new();
            for _ in 0..rest.parse::<usize>().map_err(io::Error::other)? {
                last = answer(from)?;
            }
            Ok(last)
        }
        _ => Err(io::Error::other(format!("Redis: {rest}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{answer, command};

    #[test]
    fn a_command_is_an_array_of_strings() {
        assert_eq!(command(&["GET", "a b"]), b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }

    #[test]
    fn answers_of_all_kinds_are_understood() {
        let said = |bytes: &str| answer(&mut bytes.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(said("+OK\r\n"), Ok("OK".to_owned()));
        assert_eq!(said(":1\r\n"), Ok("1".to_owned()));
        assert_eq!(said("$-1\r\n"), Ok("nothing".to_owned()));
        assert_eq!(said("*2\r\n$1\r\na\r\n$3\r\nb\r\n\r\n"), Ok("b\r\n".to_owned()));
        assert_eq!(said("-ERR no\r\n"), Err("Redis: ERR no".to_owned()));
        assert!(said("").is_err());
    }
}
