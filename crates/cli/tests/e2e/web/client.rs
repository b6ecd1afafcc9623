//! A `navlock web` that runs, and what programs ask of it.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{
    sandbox::{Lines, Sandbox, wait},
    worker::TIMEOUT,
};

/// A `navlock web`.
pub(super) struct Web {
    pub(super) child: Child,
    /// `127.0.0.1:4000`.
    pub(super) host: String,
    pub(super) token: String,
}

/// What the page's server has answered.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Web {
    pub(super) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::start_as(sandbox.navlock(&[&["web"], arguments].concat()))
    }

    pub(super) fn start_as(mut command: Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).spawn().unwrap()).expect("it prints its address")
    }

    /// The `navlock web` of this process, whose standard output is a pipe; `None` if the process ends and
    /// prints nothing.
    pub(super) fn of(mut child: Child) -> Option<Self> {
        let Some(line) = Lines::of(child.stdout.take().unwrap()).next() else {
            wait(&mut child);
            return None;
        };
        let (host, token) = line.strip_prefix("http://")?.split_once("/?token=")?;
        let (host, token) = (host.to_owned(), token.to_owned());
        Some(Self { child, host, token })
    }

    pub(super) fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let connection = TcpStream::connect(&self.host).unwrap();
        connection.set_read_timeout(Some(TIMEOUT)).unwrap();
        ask(connection, line, headers, body)
    }

    /// Asks for a path as a program that has the token.
    pub(super) fn get(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("host", self.host.as_str()), ("authorization", &bearer)];
        self.ask(&format!("GET {path}"), &headers, "")
    }

    /// Asks at a Unix socket as a program that has the token.
    pub(super) fn get_at(&self, path: &Path, asked: &str) -> Answer {
        let connection = UnixStream::connect(path).unwrap();
        connection.set_read_timeout(Some(TIMEOUT)).unwrap();
        let line = format!("GET {asked}?token={}", self.token);
        ask(connection, &line, &[("host", "localhost")], "")
    }

    pub(super) fn state(&self) -> Value {
        serde_json::from_str(&self.get("/api/state").body).unwrap()
    }

    /// The path of the page.
    pub(super) fn page(&self) -> String {
        let entered = self.get("/");
        let cookie = entered.head.split_once("; path=").unwrap().1;
        cookie.split(';').next().unwrap().to_owned()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request by hand over a connection, and reads the answer to its end.
pub(super) fn ask(
    mut to: impl Read + Write,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (headers, length) = (headers.concat(), body.len());
    let head = format!("{line} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n");
    to.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}
