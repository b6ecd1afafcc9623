//! Servers that a test starts as programs of their own.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Starts the program that it is given, prints the program's process id, and prints a line once the
/// program has ended. When the guard's standard input ends, the guard kills the program: the input
/// ends with the process that has started the guard, however that process ends. Then the guard
/// removes the directory in its first argument, if one is given.
const GUARD: &str = r#"directory=$1; said=$2; shift 2; exec 3<&0
    "$@" >/dev/null 2>"$said" 3<&- & pid=$!
    trap '' PIPE; echo $pid
    (cat <&3 >/dev/null; kill -9 $pid) >/dev/null 2>&1 & watch=$!
    wait $pid; kill $watch 2>/dev/null; echo ended 2>/dev/null
    cat <&3 >/dev/null; [ -z "$directory" ] || rm -rf "$directory""#;

/// How long to pause between two checks.
const PAUSE: Duration = Duration::from_millis(20);

/// A server that runs. It is killed when this is dropped, or when this process ends.
#[derive(Debug)]
pub struct Server {
    guard: Child,
    pid: i32,
    has_ended: Arc<AtomicBool>,
    said: PathBuf,
}

/// How a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The program and its arguments.
    pub words: &'a [String],
    /// The address at which the server listens when it is up.
    pub address: &'a str,
    /// The file for the server's standard error.
    pub said: &'a Path,
    /// The directory that is removed if the server ends with this process.
    pub removed: Option<&'a Path>,
    /// How long the server may take to listen.
    pub timeout: Duration,
}

/// Why there is no server.
#[derive(Debug)]
pub enum Failed {
    /// The server could not be started.
    NotStarted(io::Error),
    /// The server has ended by itself, with this error output.
    Ended(String),
    /// The server runs, and does not listen.
    Silent,
}

impl Server {
    /// Starts the server, and waits until the server listens. If its port is in use, this tries
    /// again until the port is free.
    ///
    /// # Errors
    ///
    /// If the server cannot be started, has ended for another reason, or does not listen in time.
    pub fn start(start: &Start<'_>) -> Result<Self, Failed> {
        let since = Instant::now();
        loop {
            match Self::start_once(start, since) {
                // A program that does not know who holds the port may use it for a moment.
                Err(Failed::Ended(said))
                    if is_port_in_use(&said) && since.elapsed() < start.timeout =>
                {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }

    fn start_once(start: &Start<'_>, since: Instant) -> Result<Self, Failed> {
        // Otherwise, another program that listens at the address would be taken for the server.
        TcpListener::bind(start.address).map_err(|error| Failed::Ended(error.to_string()))?;
        let server = Self::spawn(start).map_err(Failed::NotStarted)?;
        server.until_it_listens(start, since)?;
        Ok(server)
    }

    fn spawn(start: &Start<'_>) -> io::Result<Self> {
        // The file is made here, so that it exists even if the program cannot be found.
        File::create(start.said)?;
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .args([start.removed.unwrap_or(Path::new("")), start.said])
            .args(start.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut told = BufReader::new(guard.stdout.take().expect("it is piped"));
        let mut pid = String::new();
        told.read_line(&mut pid)?;
        let pid = pid.trim().parse().map_err(io::Error::other)?;
        let has_ended = Arc::<AtomicBool>::default();
        let tell = Arc::clone(&has_ended);
        thread::spawn(move || {
            // If the guard ends without a line, the server counts as ended, too.
            let _ = told.read_line(&mut String::new());
            tell.store(true, Ordering::SeqCst);
        });
        Ok(Self { guard, pid, has_ended, said: start.said.to_owned() })
    }

    fn until_it_listens(&self, start: &Start<'_>, since: Instant) -> Result<(), Failed> {
        loop {
            if self.has_ended.load(Ordering::SeqCst) {
                let said = fs::read(&self.said).unwrap_or_default();
                return Err(Failed::Ended(String::from_utf8_lossy(&said).trim().to_owned()));
            }
            if TcpStream::connect(start.address).is_ok() {
                return Ok(());
            }
            if since.elapsed() > start.timeout {
                return Err(Failed::Silent);
            }
            thread::sleep(PAUSE);
        }
    }

    /// The process id of the server.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn is_port_in_use(said: &str) -> bool {
    said.to_ascii_lowercase().contains("address already in use")
}

/// The text for people who read why a test failed.
impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted(error) => write!(f, "it cannot be started: {error}"),
            Self::Ended(said) if said.is_empty() => f.write_str("it has ended without a word"),
            Self::Ended(said) => write!(f, "it has ended by itself: {said}"),
            Self::Silent => f.write_str("it runs and does not listen"),
        }
    }
}

impl std::error::Error for Failed {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Port;

    const LONG: Duration = Duration::from_secs(60);

    /// This is no test but a server. A test starts it with the address in `$LISTEN`.
    #[test]
    #[ignore = "the part of another process"]
    fn listener() {
        let _listener = TcpListener::bind(std::env::var("LISTEN").unwrap()).unwrap();
        loop {
            thread::park();
        }
    }

    /// Starts a server that is a shell script. The script calls `listen` to listen.
    fn start(script: &str, port: &Port, timeout: Duration) -> Result<Server, Failed> {
        let address = port.to_string();
        let said = std::env::temp_dir().join(format!("navlock-server-{}", port.number()));
        let program = std::env::current_exe().unwrap();
        let listen = format!(
            "listen() {{ LISTEN={address} exec '{}' --exact server::tests::listener --ignored; }}\n",
            program.display()
        );
        let words = ["sh".to_owned(), "-c".to_owned(), listen + script];
        let started = Server::start(&Start {
            words: &words,
            address: &address,
            said: &said,
            removed: None,
            timeout,
        });
        // The file does not exist if nothing was started.
        let _ = fs::remove_file(said);
        started
    }

    #[test]
    fn a_server_that_ends_by_itself_is_told_with_what_it_said() {
        let port = Port::take().unwrap();
        let failed = start("echo no such setting >&2; exit 2", &port, LONG).unwrap_err();
        assert_eq!(failed.to_string(), "it has ended by itself: no such setting");
    }

    #[test]
    fn a_server_that_does_not_listen_is_told_of() {
        let port = Port::take().unwrap();
        let failed = start("exec sleep 1000", &port, Duration::ZERO).unwrap_err();
        assert_eq!(failed.to_string(), "it runs and does not listen");
    }

    #[test]
    fn a_server_whose_port_is_in_use_is_started_again_until_it_is_free() {
        let port = Port::take().unwrap();
        let tries = std::env::temp_dir().join(format!("navlock-server-tries-{}", port.number()));
        // The script fails as a server does if another of its ports is in use. At the third try, it
        // finds the port free.
        let script = format!(
            "echo x >> '{0}'; [ $(wc -l < '{0}') -ge 3 ] && listen; \
             echo bind: address already in use >&2; exit 1",
            tries.display()
        );
        start(&script, &port, LONG).unwrap();
        assert_eq!(fs::read_to_string(&tries).unwrap(), "x\n".repeat(3));
        fs::remove_file(tries).unwrap();
    }

    #[test]
    fn a_process_that_listens_at_the_port_already_is_not_taken_for_the_server() {
        let port = Port::take().unwrap();
        let _listener = TcpListener::bind(port.to_string()).unwrap();
        let failed = start("exec sleep 1000", &port, Duration::ZERO).unwrap_err();
        assert!(matches!(&failed, Failed::Ended(said) if is_port_in_use(said)), "{failed}");
    }

    #[test]
    fn a_server_ends_with_who_started_it() {
        let port = Port::take().unwrap();
        let server = start("listen", &port, LONG).unwrap();
        let pid = rustix::process::Pid::from_raw(server.pid()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_ok());
        drop(server);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
