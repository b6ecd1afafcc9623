//! Processes: whether they live, who has started whom, and signals to them, as far as there are such here.
//!
//! A number alone may be anybody's by now. A [`Handle`] is opened while the process provably is the
//! one that is meant, and refers to this process from then on.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

mod started;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle},
    path::Path,
    process::{Child, ExitStatus},
    time::Duration,
};

use windows_sys::Win32::{
    Foundation::{ERROR_INVALID_PARAMETER, STATUS_CONTROL_C_EXIT, STILL_ACTIVE},
    System::{
        Console::{CTRL_BREAK_EVENT, FreeConsole, GenerateConsoleCtrlEvent},
        Diagnostics::ToolHelp::{
            CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW,
            TH32CS_SNAPPROCESS,
        },
        Threading::{
            GetCurrentProcess, GetExitCodeProcess, GetPriorityClass, OpenProcess,
            PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE,
            PROCESS_TERMINATE, QueryFullProcessImageNameW, TerminateProcess,
        },
    },
};

pub use self::started::{execute, is_needed, let_go, set_apart};
use super::system::{checked, is_signalled, owned, wait_for};
use crate::{
    file::Identity,
    user::UserId,
    wait::{BorrowedSource, Source},
};

/// A signal that a process can be told. Windows has few of them, so these are the numbers of Unix,
/// which exit codes and messages use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Self = Self($number);)*
        }
    };
}

signals! {
    /// The console has gone.
    HANG_UP = 1;
    /// ^C.
    INTERRUPT = 2;
    /// ^Break.
    QUIT = 3;
    /// The process is asked to end.
    TERMINATE = 15;
    /// The process is ended.
    KILL = 9;
    /// The process is stopped. Nobody is told so here.
    STOP = 19;
    /// The process goes on. Nobody is told so here.
    CONTINUE = 18;
    /// The process is asked to stop. Nobody is told so here.
    SUSPEND = 20;
    /// The console has another size. Nobody is told so here.
    RESIZED = 28;
    /// A child has ended. Nobody is told so here.
    CHILD = 17;
}

impl Signal {
    /// The signal's number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// The exit code of a process that the signal has ended, as a shell gives it on Unix.
    pub(crate) fn exit_code(self) -> u32 {
        128 + self.0.unsigned_abs()
    }
}

/// Tells this process what a signal says, as far as Windows can: by ^Break, which a process that
/// leads a group gets with all of its group, or by ending it.
pub(crate) fn signal(process: BorrowedHandle<'_>, number: u32, signal: Signal) {
    match signal {
        Signal::KILL => {
            // SAFETY: The handle is open. The process may have ended.
            unsafe { TerminateProcess(process.as_raw_handle(), signal.exit_code()) };
        }
        Signal::HANG_UP | Signal::INTERRUPT | Signal::QUIT | Signal::TERMINATE => {
            // SAFETY: Numbers are given. The process has not ended, or its handle keeps the number from being
            // another's.
            unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, number) };
        }
        _ => {}
    }
}

/// Sends a signal to a child that was not waited for. It may have ended on its own.
pub fn signal_child(child: &Child, of: Signal) {
    signal(child.as_handle(), child.id(), of);
}

/// Whether a child has ended.
pub fn child_has_ended(child: &Child) -> bool {
    is_signalled(child.as_handle())
}

/// The number of the signal that has ended the process, if one has: ^C and ^Break.
pub fn ended_by(status: ExitStatus) -> Option<i32> {
    (status.code() == Some(STATUS_CONTROL_C_EXIT)).then_some(Signal::INTERRUPT.0)
}

/// Whether the system forbids this process to end the one of this number.
pub fn is_beyond_signals(number: u32) -> bool {
    let opened = open(number, PROCESS_TERMINATE);
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether there is a process of this number, as far as that is known.
pub fn exists(number: u32) -> bool {
    // A number that nobody has is an invalid parameter.
    let opened = open(number, PROCESS_QUERY_LIMITED_INFORMATION);
    !opened.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
}

/// Whose process has this number: here that is not asked for.
pub fn user_of(_: u32) -> Option<UserId> {
    None
}

fn open(number: u32, access: u32) -> io::Result<OwnedHandle> {
    // SAFETY: Numbers are given; the handle is new.
    unsafe { owned(OpenProcess(access, 0, number)) }
}

/// The process that has started this one, or 0 if that cannot be seen.
pub fn parent() -> u32 {
    parent_of(std::process::id()).unwrap_or(0)
}

/// The process that has started the one of this number, if this one is alive.
fn parent_of(number: u32) -> Option<u32> {
    // SAFETY: Numbers are given; the handle is new.
    let all = unsafe { owned(CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0)) }.ok()?;
    let size = u32::try_from(size_of::<PROCESSENTRY32W>()).ok()?;
    let mut entry = PROCESSENTRY32W { dwSize: size, ..PROCESSENTRY32W::default() };
    // SAFETY: The handle is open, and there is as much room as is said.
    let mut found = unsafe { Process32FirstW(all.as_raw_handle(), &raw mut entry) };
    while found != 0 {
        if entry.th32ProcessID == number {
            return Some(entry.th32ParentProcessID);
        }
        // SAFETY: As above.
        found = unsafe { Process32NextW(all.as_raw_handle(), &raw mut entry) };
    }
    None
}

/// What the system says of a process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it is stopped until it is told to go on: no process is here.
    pub is_stopped: bool,
    /// Who has started it. Another process may have that number now.
    pub parent: u32,
}

/// What the system says of the process of this number; `None` if there is none.
pub fn seen(number: u32) -> Option<Seen> {
    parent_of(number).map(|parent| Seen { is_stopped: false, parent })
}

/// The value of a variable with which the process was started: here that cannot be seen.
pub fn variable(_: u32, _: &str) -> Option<String> {
    None
}

/// Whether a process that was not started by this one can be asked to end, and not only be killed:
/// only processes in front of the same console can be asked.
#[cfg(feature = "command")]
pub const TELLS_OTHERS: bool = false;

/// The program of a process. Empty if that is not known.
pub fn name(number: u32) -> String {
    let path = || {
        let process = open(number, PROCESS_QUERY_LIMITED_INFORMATION).ok()?;
        let mut text = vec![0_u16; 1 << 15];
        let mut length = u32::try_from(text.len()).ok()?;
        // SAFETY: The handle is open, and there is as much room as is said.
        checked(unsafe {
            QueryFullProcessImageNameW(
                process.as_raw_handle(),
                PROCESS_NAME_WIN32,
                text.as_mut_ptr(),
                &raw mut length,
            )
        })
        .ok()?;
        Some(String::from_utf16_lossy(text.get(..length as usize)?))
    };
    let path = path().unwrap_or_default();
    let name = Path::new(&path).file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Leaves the console of whoever has started this process.
pub fn leave_terminal() {
    // SAFETY: It takes nothing. What is written to a console that is not there is lost.
    unsafe { FreeConsole() };
}

/// Commands that open a file with the program that the user prefers, to be tried in this order.
pub const OPENERS: &[&str] = &["explorer"];

/// There are no PID namespaces here.
pub fn namespace() -> Option<u64> {
    None
}

/// How nice this process is to others: Windows has priority classes instead.
pub fn niceness() -> Option<i32> {
    None
}

/// The priority class of this process, as Windows numbers them.
pub(crate) fn priority_class() -> u32 {
    // SAFETY: The handle of this process is never closed.
    unsafe { GetPriorityClass(GetCurrentProcess()) }
}

/// Whether the process of this number has this file open. This cannot be told here.
pub fn has_open(_: u32, _: Identity, _: &str) -> bool {
    false
}

/// Opens a file that a process has open. This cannot be done here.
///
/// # Errors
///
/// `Unsupported`.
pub fn open_of(_: u32, _: &OsStr, _: impl Fn(&File) -> bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The files of a directory that processes have open. This cannot be told here.
pub fn open_from(_: &Path, _: &str) -> impl Iterator<Item = (OsString, File)> {
    std::iter::empty()
}

/// A process that lived when this was opened. As a source it is readable when the process has ended.
#[derive(Debug)]
pub struct Handle {
    number: u32,
    handle: OwnedHandle,
}

impl Handle {
    /// The process that has this number now.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none, `PermissionDenied` if it is another user's at which we may not look.
    pub fn open(number: u32) -> io::Result<Self> {
        const QUERY: u32 = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE;
        let opened = match open(number, QUERY | PROCESS_TERMINATE) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(number, QUERY),
            opened => opened,
        };
        let handle = opened.map_err(|error| {
            let is_none = error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed());
            if is_none { io::ErrorKind::NotFound.into() } else { error }
        })?;
        // The number of a process that has ended stays its own for as long as somebody has a handle of it.
        if is_signalled(handle.as_handle()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { number, handle })
    }

    /// A child.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn of_child(child: &Child) -> io::Result<Self> {
        let handle = child.as_handle().try_clone_to_owned()?;
        Ok(Self { number: child.id(), handle })
    }

    /// The process's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        is_signalled(self.handle.as_handle())
    }

    /// Whether the process has ended, or ends within this time. Blocks.
    pub fn ends_within(&self, time: Duration) -> bool {
        matches!(wait_for(&[self.handle.as_handle()], Some(time)), Ok(Some(_)))
    }

    /// Whether the end of the process has begun and is not complete: it has an exit code and still runs.
    pub fn is_ending(&self) -> bool {
        let mut code = 0;
        // SAFETY: The handle is open, and there is room for the number.
        let told = unsafe { GetExitCodeProcess(self.handle.as_raw_handle(), &raw mut code) };
        told != 0 && code.cast_signed() != STILL_ACTIVE && !self.has_ended()
    }

    /// The process that has started this one. Another process may have that number now.
    pub fn parent(&self) -> Option<u32> {
        let parent = parent_of(self.number)?;
        (!self.has_ended()).then_some(parent)
    }

    /// Tells the process what a signal says. It may have ended, and we may not be allowed to end it.
    pub fn signal(&self, of: Signal) {
        signal(self.handle.as_handle(), self.number, of);
    }
}

impl AsHandle for Handle {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

impl Source for Handle {
    fn source(&self) -> BorrowedSource<'_> {
        BorrowedSource::object(self.handle.as_handle())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn waiting() -> Child {
        let mut command = Command::new("cmd");
        command.args(["/d", "/c", "set /p x="]).stdin(Stdio::piped()).stdout(Stdio::null());
        command.spawn().unwrap()
    }

    #[test]
    fn a_process_is_known_by_its_parent_and_its_end_is_seen() {
        let mut child = waiting();
        let process = Handle::open(child.id()).unwrap();
        assert_eq!(process.parent(), Some(std::process::id()));
        assert_eq!(name(child.id()), "cmd");
        assert!(!process.has_ended() && !process.is_ending());
        assert!(!process.ends_within(Duration::from_millis(10)) && !child_has_ended(&child));
        drop(child.stdin.take());
        assert!(process.ends_within(Duration::from_secs(20)));
        assert!(child_has_ended(&child) && process.parent().is_none());
        child.wait().unwrap();
        let number = child.id();
        drop((child, process));
        assert!(Handle::open(number).is_err());
    }
}
