//! Putting away what a process has inherited from the process that has started it: a broker, which is
//! everybody's, is started by whoever happens to need it first.

mod output;
mod passed;

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit, umask},
};

pub use self::{output::has_output, passed::close_inherited};
use crate::descriptor::highest_limit;

/// Signals that end a program or stop it, which its starter may have ignored.
const USUAL: [Signal; 14] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGCHLD,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
    Signal::SIGXCPU,
    Signal::SIGWINCH,
];

/// The limits of a process that its starter may have lowered for itself.
const LIMITS: [Resource; 9] = [
    // Each client takes one descriptor, and the usual 1024 are there for the sake of programs that
    // use `select`.
    Resource::Nofile,
    // Threads are counted with processes.
    Resource::Nproc,
    Resource::Cpu,
    Resource::As,
    Resource::Data,
    Resource::Stack,
    Resource::Memlock,
    Resource::Fsize,
    Resource::Core,
];

/// Puts away what a broker has from its starter, as far as that needs no privilege. If somebody started it on
/// purpose, by hand or by a service manager, only those settings are changed that no broker wants.
///
/// To be called before there is a second thread.
pub fn leave(is_on_demand: bool) {
    keep_files_private();
    reset_signals();
    // If any of this fails, the broker is as it would have been, and says so when it is asked.
    raise(Resource::Nofile);
    if is_on_demand {
        LIMITS.into_iter().for_each(raise);
        let _ = setpriority_process(None, 0);
        reset_scheduling();
        // Starters lower or raise this: so that others are killed first, or so that they are not.
        let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    }
}

/// Files that this process makes from now on are its user's alone, unless it says otherwise.
pub fn keep_files_private() {
    let _ = umask(Mode::RWXG | Mode::RWXO);
}

/// Raises the limit that holds now to the highest that is allowed.
fn raise(limit: Resource) {
    let Rlimit { maximum, .. } = getrlimit(limit);
    let current = if limit == Resource::Nofile { highest_limit() } else { maximum };
    let _ = setrlimit(limit, Rlimit { current, maximum });
}

/// Resets signals to what they do by default. To be called where nothing in this process has set a handler.
#[allow(unsafe_code, reason = "what a signal does is the whole process's")]
pub fn reset_signals() {
    for usual in USUAL {
        // SAFETY: Nothing in this process has set a handler, and none is set here: no code runs for a
        // signal, in whichever thread it comes.
        let _ = unsafe { signal(usual, SigHandler::SigDfl) };
    }
    // SAFETY: As above. A file that may not grow then is an error that can be seen, and does not end the
    // process.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    let _ = SigSet::empty().thread_set_mask();
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "no safe library has these calls")]
fn reset_scheduling() {
    use nix::{
        libc,
        sched::{CpuSet, sched_setaffinity},
        unistd::Pid,
    };
    // This struct has more members with musl than with glibc.
    // SAFETY: The struct contains numbers alone, and zero is the one priority that this policy has.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: The parameters are there for as long as the call, which only reads them.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    // One process (1), which is this one (0), gets no I/O priority of its own (0).
    // SAFETY: The call takes three numbers and no memory.
    unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, 0) };
    let mut all = CpuSet::new();
    (0..CpuSet::count()).for_each(|cpu| _ = all.set(cpu));
    let _ = sched_setaffinity(Pid::from_raw(0), &all);
}

#[cfg(not(target_os = "linux"))]
fn reset_scheduling() {}
