//! What tests need of the system that they run on, with one name for all systems.
//!
//! On Windows there are no signals, no `sh`, and no `true`. There a test's `true` is a file of commands that
//! a sandbox has in its `PATH`, and the only signals are those that end a process.

#[cfg(unix)]
pub(crate) use self::unix::*;
#[cfg(windows)]
pub(crate) use self::windows::*;

/// Whether Wine runs the tests, as `cargo xtask windows` says.
pub(crate) fn is_wine() -> bool {
    std::env::var_os("TESTS_BY_WINE").is_some()
}

#[cfg(unix)]
mod unix {
    use std::{
        fs,
        path::Path,
        process::Command,
        sync::{Arc, Once},
    };

    pub(crate) use rustix::process::{Pid, Signal, kill_process};
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

    /// A command that prints its number, then waits until nobody has its input open any more.
    pub(crate) const HELD: [&str; 3] = ["sh", "-c", "echo $$; exec cat"];

    /// The name of that command.
    pub(crate) const SHELL: &str = "sh";

    /// The line for a shell that writes the token of the lock that it runs under.
    pub(crate) const ECHO_FENCE: &str = "echo $NAVLOCK_FENCE";

    /// An empty file.
    pub(crate) const NOTHING: &str = "/dev/null";

    /// The program, as it is called from anywhere.
    pub(crate) fn absolute(program: &str) -> &str {
        program
    }

    /// The process of the command of [`HELD`], from what it has printed.
    pub(crate) fn said_by(line: &str) -> Option<Pid> {
        let pid = Pid::from_raw(line.parse().unwrap_or(0));
        assert!(pid.is_some(), "the command did not begin");
        pid
    }

    /// Lets a command find programs that the system does not have. This system has all.
    pub(crate) fn add_programs(_: &mut Command, _: &Path) {}

    /// Whether a process that is not our child lives.
    pub(crate) fn lives(pid: Pid) -> bool {
        rustix::process::test_kill_process(pid).is_ok()
    }

    /// Gives programs that are started from here on the usual dispositions of signals, whatever this process
    /// was started with: a script that ends with `&`, and `nohup`, have it ignore some.
    ///
    /// A new program still ignores an ignored signal, but does not catch a caught one. So the ignored signals
    /// are caught here, by a handler that does as little with them.
    pub(crate) fn heed_signals() {
        static HEEDED: Once = Once::new();
        HEEDED.call_once(|| {
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
            let ignored = ignored.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
            for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD] {
                if ignored >> (signal - 1) & 1 == 1 {
                    signal_hook::flag::register(signal, Arc::default()).unwrap();
                }
            }
        });
    }

    /// Stops a process, and waits until all of it has stopped.
    pub(crate) fn stop(process: Pid) {
        kill_process(process, Signal::STOP).unwrap();
        crate::sandbox::eventually("it has stopped", || threads_are(process, 'T'));
    }

    /// Whether all threads of a process are in this state.
    pub(crate) fn threads_are(process: Pid, state: char) -> bool {
        let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
        fs::read_dir(&tasks).unwrap().all(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains(&format!("State:\t{state}")))
        })
    }
}

#[cfg(windows)]
mod windows {
    use std::{
        env, fs, io,
        num::NonZero,
        path::Path,
        process::{Child, Command},
        sync::OnceLock,
    };

    use navlock_platform::process::{self, Handle};

    /// The same as on Unix; the command is known by what the broker says of it.
    pub(crate) const HELD: [&str; 4] = ["cmd", "/d", "/c", "echo begun& set /p x=& exit 0"];

    pub(crate) const SHELL: &str = "cmd";

    pub(crate) const ECHO_FENCE: &str = "echo %NAVLOCK_FENCE%";

    pub(crate) const NOTHING: &str = r"\\.\NUL";

    /// The path with its drive: a path from the build may have none.
    pub(crate) fn absolute(program: &str) -> &str {
        static ABSOLUTE: OnceLock<String> = OnceLock::new();
        ABSOLUTE.get_or_init(|| {
            std::path::absolute(program).unwrap().into_os_string().into_string().unwrap()
        })
    }

    pub(crate) fn said_by(line: &str) -> Option<Pid> {
        assert_eq!(line, "begun", "the command did not begin");
        None
    }

    pub(crate) fn add_programs(command: &mut Command, directory: &Path) {
        let programs = directory.join("programs");
        if !programs.exists() {
            fs::create_dir(&programs).unwrap();
            for (name, text) in [("true", "@exit 0"), ("touch", "@type nul >%1")] {
                fs::write(programs.join(name).with_extension("cmd"), format!("{text}\r\n"))
                    .unwrap();
            }
        }
        let found = env::var_os("PATH").unwrap_or_default();
        let all = [programs].into_iter().chain(env::split_paths(&found));
        command.env("PATH", env::join_paths(all).unwrap());
    }

    pub(crate) fn lives(pid: Pid) -> bool {
        Handle::open(pid.0.get().unsigned_abs()).is_ok()
    }

    pub(crate) fn heed_signals() {}

    /// The number of a process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Pid(NonZero<i32>);

    impl Pid {
        pub(crate) fn from_raw(number: i32) -> Option<Self> {
            NonZero::new(number).map(Self)
        }

        pub(crate) fn from_child(child: &Child) -> Self {
            Self::from_raw(child.id().try_into().unwrap()).unwrap()
        }

        pub(crate) fn as_raw_nonzero(self) -> NonZero<i32> {
            self.0
        }
    }

    /// What ends a process.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Signal;

    impl Signal {
        pub(crate) const KILL: Self = Self;
        /// There is none that a process without a window heeds whom we have not started.
        pub(crate) const TERM: Self = Self;
    }

    pub(crate) fn kill_process(pid: Pid, _: Signal) -> io::Result<()> {
        Handle::open(pid.0.get().unsigned_abs())?.signal(process::Signal::KILL);
        Ok(())
    }
}
