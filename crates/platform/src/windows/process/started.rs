//! How programs are started, and whose end is whose.
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

/// Has this process become a command, as far as anybody sees who waits for it: it does nothing else any more, ends as
/// the command ends, and the command, without what that has started, ends with it. Returns why it cannot.
pub fn execute(command: &mut Command) -> io::Error {
    unsafe extern "system" fn leave_to_command(event: u32) -> BOOL {
        // What else there is ends all that are in front of the console.
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

/// A job whose processes end with this one, without those that they start.
fn ends_with_us() -> io::Result<OwnedHandle> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
    let size = u32::try_from(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()).unwrap_or_default();
    // SAFETY: It has no name and no attributes, the handle is new, and what is read is as long as is said.
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

/// Has a command be in a process group of its own: what interrupts us is not meant for it.
pub fn set_apart(command: &mut Command) {
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

/// Has a program that is everybody's, a broker, not end with whoever happens to start it: it has no console, it leaves
/// our job if that lets it go, and it does not inherit what we write to, whose end others wait for.
pub fn let_go(command: &mut Command) {
    let breakaway = if may_break_away() { CREATE_BREAKAWAY_FROM_JOB } else { 0 };
    command.creation_flags(CREATE_NO_WINDOW | CREATE_NEW_PROCESS_GROUP | breakaway);
    for stream in [io::stdin().as_handle(), io::stdout().as_handle(), io::stderr().as_handle()] {
        // Whoever is to have it is given a copy.
        let _ = set_inherited(stream, false);
    }
}

/// Whether we are in a job, and it lets go of those who want to leave it.
fn may_break_away() -> bool {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let size = u32::try_from(size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>()).unwrap_or_default();
    let null = ptr::null_mut;
    // SAFETY: Without a handle it is our own job that is meant; there is as much room as is said.
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

/// Whether a program needs this variable to be started at all: libraries of the system are found by some, and folders of
/// the user by others. Their names may be written in any case, as `Path` mostly is.
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
