//! How programs are started, and which of them end with which.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    ffi::OsStr,
    io,
    os::windows::{
        io::{AsHandle, AsRawHandle, OwnedHandle},
        process::CommandExt,
    },
    process::Command,
    ptr,
};

use windows_sys::{
    Win32::System::{
        Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler},
        JobObjects::{
            AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_BREAKAWAY_OK,
            JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK,
            JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
            QueryInformationJobObject, SetInformationJobObject,
        },
        Threading::{CREATE_BREAKAWAY_FROM_JOB, CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW},
    },
    core::BOOL,
};

use crate::windows::system::{checked, owned, set_inherited};

/// Has this process stand for a command, to everybody who waits for it: it does nothing else any
/// more, ends as the command ends, and the command ends with it, without the processes that the
/// command has started. Returns the reason if that fails.
pub fn execute(command: &mut Command) -> io::Error {
    unsafe extern "system" fn leave_to_command(event: u32) -> BOOL {
        // All other events end every process in front of the console.
        i32::from([CTRL_C_EVENT, CTRL_BREAK_EVENT].contains(&event))
    }
    // The console tells the command as well, which is in front of it with us.
    command.creation_flags(0);
    // SAFETY: The function is there for as long as the program.
    unsafe { SetConsoleCtrlHandler(Some(leave_to_command), 1) };
    let job = ends_with_us();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return error,
    };
    if let Ok(job) = &job {
        // SAFETY: Both handles are open.
        unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) };
    }
    match child.wait() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// A job whose processes end with this one, but not the processes that these start.
fn ends_with_us() -> io::Result<OwnedHandle> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
    let size = u32::try_from(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()).unwrap_or_default();
    // SAFETY: The job has no name and no attributes, the handle is new, and what is read is as long
    // as is said.
    unsafe {
        let job = owned(CreateJobObjectW(ptr::null(), ptr::null()))?;
        checked(SetInformationJobObject(
            job.as_raw_handle(),
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            size,
        ))?;
        Ok(job)
    }
}

/// Has a command start in a process group of its own: what interrupts us is not meant for it.
pub fn set_apart(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Keeps a program that everybody uses, a broker, from ending with whoever happens to start it. The
/// program gets no console, leaves our job if the job lets it go, and does not inherit our standard
/// streams, whose end others wait for.
pub fn let_go(command: &mut Command) {
    let breakaway = if may_break_away() { CREATE_BREAKAWAY_FROM_JOB } else { 0 };
    command.creation_flags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP | breakaway);
    for stream in [io::stdin().as_handle(), io::stdout().as_handle(), io::stderr().as_handle()] {
        // A program that is to have a stream is given a copy.
        let _ = set_inherited(stream, false);
    }
}

/// Whether we are in a job that lets processes leave it.
fn may_break_away() -> bool {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let size = u32::try_from(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()).unwrap_or_default();
    let null = ptr::null_mut;
    // SAFETY: Without a handle our own job is meant; there is as much room as is said.
    let told = unsafe {
        QueryInformationJobObject(
            null(),
            JobObjectExtendedLimitInformation,
            (&raw mut limits).cast(),
            size,
            null().cast(),
        )
    };
    told != 0 && limits.BasicLimitInformation.LimitFlags & JOB_OBJECT_LIMIT_BREAKAWAY_OK != 0
}

/// Whether a program needs this variable to be started at all: by some, libraries of the system are
/// found, and by others, folders of the user. Their names may be written in any case, as `Path`
/// mostly is.
pub fn is_needed(name: &OsStr) -> bool {
    const NEEDED: [&str; 12] = [
        "PATH",
        "SystemRoot",
        "SystemDrive",
        "windir",
        "ComSpec",
        "PATHEXT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "APPDATA",
        "LOCALAPPDATA",
    ];
    NEEDED.iter().any(|needed| name.eq_ignore_ascii_case(needed))
}
