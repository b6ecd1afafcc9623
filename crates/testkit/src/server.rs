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

/// Starts what is given to it, says its number and, once it has ended, that. It is killed when the
/// guard's own standard input ends: with who started it, however that ends. Then the directory is
/// removed that is named first, if one is.
const GUARD: &str = r#"directory=$1; said=$2; shift 2; exec 3<&0
    "$@" >/dev/null 2>"$said" 3<&- & pid=$!
    trap '' PIPE; echo $pid
    (cat <&3 >/dev/null; kill -9 $pid) >/dev/null 2>&1 & watch=$!
    wait $pid; kill $watch 2>/dev/null; echo ended 2>/dev/null
    cat <&3 >/dev/null; [ -z "$directory" ] || rm -rf "$directory""#;

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A server that runs. It is killed when this is dropped, or with this process.
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
    /// Where it listens once it is up.
    pub address: &'a str,
    /// The file that gets what the server writes to its standard error.
    pub said: &'a Path,
    /// The directory that is removed if the server ends with this process.
    pub removed: Option<&'a Path>,
    /// How long the server may take to listen.
    pub patience: Duration,
}

/// Why there is no server.
#[derive(Debug)]
pub enum Failed {
    /// It could not be started.
    NotStarted(io::Error),
    /// It has ended by itself, and has said this.
    Ended(String),
    /// It runs and does not listen.
    Silent,
}

impl Server {
    /// Starts the server, and waits until it listens. If its port is in use, tries again until the port is
    /// free.
    ///
    /// # Errors
    ///
    /// If it cannot be started, has ended for another reason, or the time is over.
    pub fn start(start: &Start<'_>) -> Result<Self, Failed> {
        let since = Instant::now();
        loop {
            match Self::start_once(start, since) {
                // By who does not know whose it is, for a moment.
                Err(Failed::Ended(said))
                    if is_port_in_use(&said) && since.elapsed() < start.patience =>
                {
                    thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }

    fn start_once(start: &Start<'_>, since: Instant) -> Result<Self, Failed> {
        // Or another who listens there would be taken for it.
        TcpListener::bind(start.address).map_err(|error| Failed::Ended(error.to_string()))?;
        let server = Self::spawn(start).map_err(Failed::NotStarted)?;
        server.until_it_listens(start, since)?;
        Ok(server)
    }

    fn spawn(start: &Start<'_>) -> io::Result<Self> {
        // Made here, so that the file is there even if the program cannot be found.
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
            // If the guard ends without a word, the server counts as ended too.
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
            if since.elapsed() > start.patience {
                return Err(Failed::Silent);
            }
            thread::sleep(PAUSE);
        }
    }

    /// The number of its process.
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

/// For who reads why a test failed.
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

    /// Not a test: a server, which a test has started with the address as `$LISTEN`.
    #[test]
    #[ignore = "the part of another process"]
    fn listener() {
        let _listener = TcpListener::bind(std::env::var("LISTEN").unwrap()).unwrap();
        loop {
            thread::park();
        }
    }

    /// A server in shell, in which `listen` has it listen.
    fn start(script: &str, port: &Port, patience: Duration) -> Result<Server, Failed> {
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
            patience,
        });
        // It is not there if nothing was started.
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
        // As a server says it of another of its ports; the third try finds that free.
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
    fn who_listens_at_the_port_already_is_not_taken_for_the_server() {
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
