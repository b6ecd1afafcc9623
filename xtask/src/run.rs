//! Running commands.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// The result of a step. The error is a message for the person at the terminal.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// The folder that the workspace is in.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask is a folder of the workspace").to_owned()
}

/// `cargo` with these arguments, in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// `npm` with these arguments, in the folder of the package.
pub(crate) fn npm(arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(root().join("npm/navlock"));
    command
}

/// The path of an optimised program of the workspace. It is an error if the program was not built.
pub(crate) fn built(program: &str) -> Result<PathBuf> {
    built_in("release", program)
}

/// The path of a program of the workspace in a folder of the target folder, such as `debug`. It is an error
/// if the program was not built.
pub(crate) fn built_in(folder: &str, program: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let path = root().join(target).join(folder).join(program);
    if path.exists() { Ok(path) } else { Err(format!("{} was not built", path.display())) }
}

/// Runs the command, after showing it; says how long it took.
pub(crate) fn run(command: &mut Command) -> Result {
    let shown = show(command);
    println!("\n$ {shown}");
    let began = Instant::now();
    let status = command.status().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    println!("({} s)", began.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {shown}")) }
}

/// Runs `cargo test`, as [`run`] does. What failing tests have said stands in the midst of thousands of lines,
/// so the error says it again.
fn run_tests(command: &mut Command) -> Result {
    let shown = show(command);
    println!("\n$ {shown}");
    let began = Instant::now();
    let cannot = |error| format!("cannot run `{shown}`: {error}");
    let mut tests = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let output = BufReader::new(tests.stdout.take().expect("it is piped"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || output.split(b'\n').try_for_each(|line| sender.send(line.ok()?).ok()));
    let mut failures = String::new();
    let mut is_failure = false;
    let status = loop {
        let line = match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break tests.wait().map_err(cannot)?,
            // A process that a failing test has left behind may keep the pipe open.
            Err(RecvTimeoutError::Timeout) => match tests.try_wait().map_err(cannot)? {
                Some(status) => break status,
                None => continue,
            },
        };
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        // A suite ends with its failures, and these with its result.
        is_failure = line == "failures:" || is_failure && !line.starts_with("test result:");
        if is_failure {
            failures.push_str(&line);
            failures.push('\n');
        }
    };
    println!("({} s)", began.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(format!("{failures}failed ({status}): {shown}")) }
}

/// Runs `tests`, and meanwhile `others`, one after another. What one of `others` prints is shown when it
/// has ended. Once a command has failed, no further one of `others` is started.
pub(crate) fn run_beside(tests: &mut Command, mut others: Vec<Command>) -> Result {
    let has_failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut wanted = others.iter_mut().take_while(|_| !has_failed.load(Ordering::Relaxed));
            wanted.try_for_each(run_silently)
        });
        let result = run_tests(tests);
        has_failed.store(result.is_err(), Ordering::Relaxed);
        let others = beside.join().expect("nothing panics that runs a command");
        match (result, others) {
            (Err(one), Err(other)) => Err(format!("{one}\n{other}")),
            (result, others) => result.and(others),
        }
    })
}

/// Runs the command as [`run`] does, and shows all that it printed when it has ended.
fn run_silently(command: &mut Command) -> Result {
    let shown = show(command);
    let began = Instant::now();
    let output = command.output().map_err(|error| format!("cannot start `{shown}`: {error}"))?;
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    let seconds = began.elapsed().as_secs();
    let status = output.status;
    println!("\n$ {shown}\n{said}{complained}({seconds} s, beside others; {status})");
    if status.success() { Ok(()) } else { Err(format!("failed ({status}): {shown}")) }
}

/// The command with the lowest priority: every other process gets the CPU first.
pub(crate) fn unhurried(command: &Command) -> Command {
    wrapped(Command::new("nice"), &["-n", "19"], command)
}

/// What the command prints. If the command fails, the error is what it printed to standard error.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let environment = command
        .get_envs()
        .filter_map(|(key, value)| Some((key.to_string_lossy(), value?.to_string_lossy())))
        // `PATH` is longer than all the rest and says nothing about the command.
        .filter(|(key, _)| key != "PATH")
        .map(|(key, value)| format!("{key}={value:?} "));
    // A script is shown by its first line.
    let first_line = |argument: String| match argument.trim().split_once('\n') {
        Some((first, _)) => format!(" '{first} …'"),
        None => format!(" {argument}"),
    };
    let arguments =
        command.get_args().map(|argument| first_line(argument.to_string_lossy().into_owned()));
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    environment.chain([program.to_string_lossy().into_owned()]).chain(arguments).collect()
}

/// The command, which is ended if it runs longer than `minutes`.
pub(crate) fn within(minutes: u32, command: &Command) -> Command {
    wrapped(Command::new("timeout"), &["--kill-after=10s", &format!("{minutes}m")], command)
}

/// A command that runs `wrapper` with `arguments`, which in turn runs `command`.
fn wrapped(mut wrapper: Command, arguments: &[&str], command: &Command) -> Command {
    wrapper.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapper.current_dir(folder);
    }
    wrapper
}
