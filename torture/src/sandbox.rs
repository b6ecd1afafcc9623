//! The surroundings of a run: its own small disk, and machines, each with a broker's place.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    mount::{MountFlags, mount},
};

use crate::{
    events::DIRECTORY,
    options::{Options, Reach},
};

/// The size of the disk.
const BYTES: u64 = 4 << 20;
const INODES: u64 = 400;

/// One machine: the workers on it share a broker.
pub(crate) struct Machine {
    /// The broker's place, on the small disk.
    pub(crate) directory: PathBuf,
    pub(crate) config: PathBuf,
    /// The name of the socket.
    socket: &'static str,
    /// A folder that the disturbances of the small disk do not reach.
    state: PathBuf,
}

impl Machine {
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(self.socket)
    }

    /// The broker's file of this name, or its directory.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{}.{name}", self.socket))
    }

    /// The faults that the machine's brokers have noted.
    pub(crate) fn faults(&self) -> String {
        fs::read_to_string(self.state.join("faults.log")).unwrap_or_default()
    }
}

pub(crate) struct Sandbox {
    pub(crate) logs: PathBuf,
    disk: PathBuf,
    navlock: PathBuf,
    pub(crate) machines: Vec<Machine>,
    clock: File,
    delegates: bool,
}

impl Sandbox {
    /// Mounts the disk and makes what is needed.
    pub(crate) fn new(options: &Options, machines: usize) -> io::Result<Self> {
        let logs = options.logs.clone();
        // No process outside sees this mount, so it may be anywhere; a socket's path has to be short.
        let disk = PathBuf::from("/mnt");
        let size = format!("size={BYTES},nr_inodes={INODES},mode=700");
        let size = std::ffi::CString::new(size).expect("there is no zero in it");
        mount("navlock-torture", &disk, "tmpfs", MountFlags::empty(), Some(size.as_c_str()))?;
        fs::create_dir_all(logs.join("home"))?;
        fs::write(logs.join("clock"), 0_i64.to_ne_bytes())?;
        let clock = OpenOptions::new().write(true).open(logs.join("clock"))?;
        let source = logs.join("clock.c");
        fs::write(&source, include_str!("../preload/clock.c"))?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(logs.join("clock.so"))
            .arg(&source)
            .status()?;
        if !compiled.success() {
            return Err(io::Error::other("cc cannot compile clock.c"));
        }
        let socket = if options.reach == Reach::Broker { "sock" } else { "sock.store-main" };
        let machines = (0..machines).map(|nth| Machine {
            socket,
            directory: disk.join(format!("m{nth}")),
            config: logs.join(format!("m{nth}.toml")),
            state: logs.join(format!("m{nth}.state")),
        });
        let machines: Vec<_> = machines.collect();
        for machine in &machines {
            fs::create_dir(&machine.directory)?;
            fs::create_dir(&machine.state)?;
            fs::write(&machine.config, "")?;
        }
        let (navlock, delegates) = (options.navlock.clone(), options.has("delegation"));
        Ok(Self { logs, disk, navlock, machines, clock, delegates })
    }

    /// A program that finds the `navlock` and the broker of this machine.
    pub(crate) fn program(&self, machine: usize, program: &Path) -> Command {
        let Machine { config, state, .. } = &self.machines[machine];
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.logs.join("home"))
            .env("NAVLOCK_SOCKET", self.machines[machine].socket())
            .env("NAVLOCK_CONFIG", config)
            .env("NAVLOCK_STATE", state)
            .env("NAVLOCK_BIN", &self.navlock)
            .env("LD_PRELOAD", self.logs.join("clock.so"))
            .env("TORTURE_CLOCK", self.logs.join("clock"))
            .env(DIRECTORY, &self.logs)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .current_dir("/");
        if !self.delegates {
            command.env("NAVLOCK_DELEGATE", "0");
        }
        command
    }

    pub(crate) fn navlock(&self, machine: usize, arguments: &[&str]) -> Command {
        let mut command = self.program(machine, &self.navlock);
        command.args(arguments);
        command
    }

    /// Sets the clock of all processes wrong by so many seconds.
    pub(crate) fn step_clock(&self, seconds: i64) {
        use std::os::unix::fs::FileExt;
        // Eight bytes in one page: nobody sees half of them.
        self.clock.write_all_at(&seconds.to_ne_bytes(), 0).expect("there is room");
    }

    fn ballast(&self) -> PathBuf {
        self.disk.join("ballast")
    }

    /// Leaves no room on the disk. To be called again and again, because what others remove makes room.
    pub(crate) fn fill_bytes(&self) {
        let Ok(()) = make(&self.ballast()) else { return };
        let path = self.ballast().join("bytes");
        let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) else { return };
        for piece in [256 << 10, 4096] {
            while let Ok(at) = file.metadata().map(|metadata| metadata.len()) {
                if fallocate(&file, FallocateFlags::empty(), at, piece).is_err() {
                    break;
                }
            }
        }
        while file.write(&[0; 512]).is_ok_and(|written| written > 0) {}
    }

    /// Leaves no room for another file.
    pub(crate) fn fill_inodes(&self) {
        let Ok(()) = make(&self.ballast()) else { return };
        for nth in 0..INODES {
            let path = self.ballast().join(nth.to_string());
            if !path.exists() && File::create(path).is_err() {
                return;
            }
        }
    }

    pub(crate) fn empty(&self) {
        if let Err(error) = fs::remove_dir_all(self.ballast()) {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "the disk can be emptied");
        }
        // A removed directory could not be made again while files of it were open, because these took room.
        for machine in &self.machines {
            make(&machine.directory).expect("there is room");
        }
    }
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
