//! A place of its own for each test.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use navlock::{Look, LookOptions, Place};
use navlock_platform::{
    file_lock,
    wait::{self, Interest, Source},
};

#[cfg(unix)]
use crate::system::{stop, threads_are};
use crate::{
    system::{
        HELD, NOTHING, Pid, Signal, absolute, add_programs, heed_signals, kill_process, said_by,
    },
    worker::PATIENCE,
};

/// A directory with a broker's socket in it. The broker ends with this.
pub(crate) struct Sandbox {
    directory: tempfile::TempDir,
    idle: &'static str,
    /// The settings of its broker: none, whatever this machine has.
    config: PathBuf,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::with_idle("30")
    }

    /// One whose broker ends after so many seconds without clients.
    pub(crate) fn with_idle(idle: &'static str) -> Self {
        heed_signals();
        Self { directory: tempfile::tempdir().unwrap(), idle, config: NOTHING.into() }
    }

    /// One whose broker has these settings.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "they are all of etcd"))]
    pub(crate) fn with_settings(settings: &str) -> Self {
        let mut sandbox = Self::new();
        sandbox.config = sandbox.path("config.toml");
        sandbox.settle(settings);
        sandbox
    }

    /// Has its next broker have these settings.
    pub(crate) fn settle(&self, settings: &str) {
        write(&self.config, settings);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("sock")
    }

    /// Makes a named pipe.
    #[cfg(unix)]
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        // By the program, since the call is not to be had of every system.
        let path = self.path(name);
        let made = Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// A program that finds `navlock`, and its broker, as a script of a user would.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("NAVLOCK_SOCKET", self.socket())
            .env("NAVLOCK_IDLE_SECS", self.idle)
            .env("NAVLOCK", absolute(NAVLOCK))
            .env("NAVLOCK_CONFIG", &self.config)
            .env("NAVLOCK_STATE", self.path("state"))
            .env_remove("NAVLOCK_ETCD")
            .env_remove("NAVLOCK_LOG")
            .env_remove("NAVLOCK_LOG_NAMES")
            .env_remove("NAVLOCK_BUCKET")
            .env_remove("NAVLOCK_INSIDE")
            .env_remove("NAVLOCK_BIN")
            .env_remove("NO_COLOR")
            .current_dir(self.directory.path());
        add_programs(&mut command, self.directory.path());
        command
    }

    pub(crate) fn navlock(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(absolute(NAVLOCK));
        command.args(arguments);
        command
    }

    /// Runs it to its end.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        finish(self.start(arguments))
    }

    pub(crate) fn code(&self, arguments: &[&str]) -> i32 {
        self.output(arguments).status.code().unwrap()
    }

    /// The same of a command that does not wait, once it has had an answer: on a busy machine a broker may take longer
    /// to start than it has for that.
    pub(crate) fn answered(&self, arguments: &[&str]) -> i32 {
        let mut code = 69;
        eventually("it has an answer", || {
            code = self.code(arguments);
            code != 69
        });
        code
    }

    /// What it writes, if it ends well.
    pub(crate) fn written(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.navlock(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// A holder that is at work when this returns, and known by its command.
    pub(crate) fn hold(&self, arguments: &[&str]) -> Holder {
        let mut holder = self.wait_for(arguments);
        holder.begun();
        self.know(&mut holder);
        holder
    }

    /// Waits until the broker knows which process the holder's command is: a `navlock run` says so
    /// once it has started it, and by then that may have written what it has to say.
    pub(crate) fn know(&self, holder: &mut Holder) {
        let number = |pid: Pid| pid.as_raw_nonzero().get().unsigned_abs();
        let (wrapper, command) = (number(holder.wrapper()), holder.command.map(number));
        eventually("the broker knows the command", || {
            let Ok(seen) = Look::once(Place::at(self.socket()), LookOptions::default()) else {
                return false;
            };
            let found = seen.agents.values().find(|agent| {
                let client = agent.client.and_then(|client| seen.clients.get(&client));
                let is_ours = client.is_some_and(|client| client.pid == wrapper);
                let pid = agent.info.pid;
                command.map_or(is_ours && pid != wrapper, |command| pid == command)
            });
            let found = found.and_then(|agent| Pid::from_raw(agent.info.pid.try_into().ok()?));
            holder.command = holder.command.or(found);
            found.is_some()
        });
    }

    /// Somebody who will be a holder.
    pub(crate) fn wait_for(&self, arguments: &[&str]) -> Holder {
        let mut command = self.navlock(&["run"]);
        command.args(arguments).args(HELD);
        Holder::start(command)
    }

    /// Somebody who waits in a queue when this returns.
    pub(crate) fn queue(&self, arguments: &[&str]) -> Holder {
        let pending = || self.query().iter().filter(|line| line.starts_with("pending")).count();
        let before = pending();
        let waiter = self.wait_for(arguments);
        eventually("it waits", || pending() > before);
        waiter
    }

    /// A holder whose command is this script, at work when this returns. The script begins by
    /// saying who it is: `echo $$`.
    #[cfg(unix)]
    pub(crate) fn hold_by(&self, arguments: &[&str], script: &str) -> Holder {
        let mut command = self.navlock(&["run"]);
        command.args(arguments).args(["sh", "-c", script]);
        let mut holder = Holder::start(command);
        holder.begun();
        holder
    }

    /// Somebody who will ask once this named pipe has a writer.
    #[cfg(unix)]
    pub(crate) fn wait_behind(&self, gate: &Path, arguments: &[&str]) -> Holder {
        let mut command = self.program("sh");
        command.args(["-c", ": <\"$0\"; exec \"$NAVLOCK\" run \"$@\""]).arg(gate);
        command.args(arguments).args(HELD);
        Holder::start(command)
    }

    /// The lines of `navlock query`, each as state and name and mode.
    pub(crate) fn query(&self) -> Vec<String> {
        let output = self.output(&["query"]);
        assert!(output.status.success(), "{output:?}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let row = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        lines.lines().skip(1).map(row).collect()
    }

    /// Removes the directory of clients with all that is in it, as `rm -r` does.
    #[cfg(unix)]
    pub(crate) fn remove_clients(&self) {
        // Clients may make their files anew while others are still to be removed.
        eventually("the files of clients are removed", || {
            let removed = fs::remove_dir_all(self.path("sock.clients"));
            let Err(error) = removed else { return true };
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
            false
        });
    }

    /// Has nobody find the directory any more.
    #[cfg(unix)]
    pub(crate) fn hide(&self) {
        fs::rename(self.path(""), self.hidden()).unwrap();
    }

    fn hidden(&self) -> PathBuf {
        self.directory.path().with_extension("hidden")
    }

    /// Kills the broker. Its process.
    pub(crate) fn kill_broker(&self) -> Pid {
        let broker = self.broker().unwrap();
        kill_process(broker, Signal::KILL).unwrap();
        broker
    }

    /// Kills the broker, and waits until its clients have found the next one.
    pub(crate) fn replace_broker(&self) {
        let killed = self.kill_broker();
        eventually("there is another broker", || self.broker().is_some_and(|next| next != killed));
    }

    /// The broker's process, from the file whose lock it holds.
    pub(crate) fn broker(&self) -> Option<Pid> {
        let path = self.path("sock.broker.lock");
        let file = File::open(&path).ok()?;
        if file_lock::try_shared(&file).unwrap() {
            return None;
        }
        Pid::from_raw(fs::read_to_string(&path).ok()?.trim().parse().ok()?)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.hidden());
        // Another one may have been waiting for its end.
        eventually("the broker ends", || {
            let broker = self.broker();
            let _ = broker.map(|broker| kill_process(broker, Signal::TERM));
            broker.is_none()
        });
        // What broke inside a broker may have been made good by something else.
        let faults = fs::read_to_string(self.path("state/faults.log")).unwrap_or_default();
        assert!(faults.is_empty() || thread::panicking(), "a broker panicked: {faults}");
    }
}

pub(crate) const NAVLOCK: &str = env!("CARGO_BIN_EXE_navlock");

/// A `navlock run` whose command holds the lock until it is told to end.
pub(crate) struct Holder {
    wrapper: Child,
    /// The command ends when this does. Not left in `wrapper`, which lets go of it in `wait`.
    hold: Option<ChildStdin>,
    says: Lines<ChildStdout>,
    command: Option<Pid>,
}

impl Holder {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut wrapper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let says = Lines::of(wrapper.stdout.take().unwrap());
        let hold = wrapper.stdin.take();
        Self { wrapper, hold, says, command: None }
    }

    /// Waits until the command runs.
    pub(crate) fn begun(&mut self) {
        self.command = said_by(&self.line());
    }

    pub(crate) fn kill_wrapper(&mut self) {
        self.wrapper.kill().unwrap();
        self.wrapper.wait().unwrap();
    }

    pub(crate) fn kill_command(&self) {
        kill_process(self.command.unwrap(), Signal::KILL).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.wrapper), signal).unwrap();
    }

    pub(crate) fn wrapper(&self) -> Pid {
        Pid::from_child(&self.wrapper)
    }

    /// Whether the wrapper has ended by now.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.wrapper.try_wait().unwrap().is_some()
    }

    /// The command's process.
    pub(crate) fn command(&self) -> Pid {
        self.command.unwrap()
    }

    /// The same, if it has begun.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "they are all of etcd"))]
    pub(crate) fn command_if_any(&self) -> Option<Pid> {
        self.command
    }

    /// Whether no process stands between us and the command.
    pub(crate) fn is_its_own_command(&self) -> bool {
        self.command == Some(Pid::from_child(&self.wrapper))
    }

    /// The next line that the command writes.
    pub(crate) fn line(&mut self) -> String {
        self.says.next().unwrap_or_default().trim_end().to_owned()
    }

    /// Stops the wrapper, and waits until all of it has stopped.
    #[cfg(unix)]
    pub(crate) fn stop(&self) {
        stop(self.wrapper());
    }

    /// Waits until the wrapper has nothing left to do: who sleeps whenever it is looked at is not
    /// waiting for a CPU.
    #[cfg(unix)]
    pub(crate) fn rests(&self) {
        let mut looks = 0;
        eventually("the wrapper rests", || {
            looks = if threads_are(self.wrapper(), 'S') { looks + 1 } else { 0 };
            looks > 40
        });
    }

    /// Writes a line to the command.
    #[cfg(target_os = "linux")]
    pub(crate) fn tell(&mut self, line: &str) {
        self.hold.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Has the command end by itself.
    pub(crate) fn let_go(&mut self) {
        drop(self.hold.take());
    }

    /// Waits for the end of the wrapper.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.wrapper)
    }

    /// Has the command end, and waits for it.
    pub(crate) fn release(mut self) {
        self.let_go();
        assert!(self.ended().success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.let_go();
        let _ = self.wrapper.kill();
        let _ = self.wrapper.wait();
    }
}

/// The lines that a process writes, each of which has to come in good time.
pub(crate) struct Lines<R> {
    from: R,
    heard: Vec<u8>,
}

impl<R: Read + Source> Lines<R> {
    pub(crate) fn of(from: R) -> Self {
        Self { from, heard: Vec::new() }
    }
}

impl<R: Read + Source> Iterator for Lines<R> {
    type Item = String;

    /// The next line, without its end; `None` if nobody writes any more.
    fn next(&mut self) -> Option<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
                let line: Vec<_> = self.heard.drain(..=end).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let [ready] = wait::wait([(self.from.source(), Interest::READ)], Some(left)).unwrap();
            assert!(ready.any(), "no line in {PATIENCE:?}; the last one: {:?}", self.heard);
            let mut bytes = [0; 4096];
            let length = self.from.read(&mut bytes).unwrap();
            self.heard.extend_from_slice(&bytes[..length]);
            if length == 0 {
                let rest = std::mem::take(&mut self.heard);
                return (!rest.is_empty()).then(|| String::from_utf8(rest).unwrap());
            }
        }
    }
}

/// Kills all of these at one moment, as far as they can tell: none has time to see the end of another
/// one, and to do anything about it.
#[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "they are all of etcd"))]
#[cfg(unix)]
pub(crate) fn kill_at_once(all: &[Pid]) {
    for process in all {
        stop(*process);
    }
    for process in all {
        kill_process(*process, Signal::KILL).unwrap();
    }
}

/// Waits until something is true, which nobody announces.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Waits for the end of a process, which it must come to.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    eventually("the process ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Waits for its end, and for what it had to say, which must be short.
pub(crate) fn finish(mut child: Child) -> Output {
    let status = wait(&mut child);
    let read = |from: Option<&mut dyn Read>| {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            from.read_to_end(&mut bytes).unwrap();
        }
        bytes
    };
    let stdout = read(child.stdout.as_mut().map(|from| from as _));
    let stderr = read(child.stderr.as_mut().map(|from| from as _));
    Output { status, stdout, stderr }
}

pub(crate) fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}
