//! A command with all processes that it has started, which work under its lock. Windows calls this
//! a job.
//!
//! The job does not end with us: its processes go on when we are killed, and keep the lock.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    os::windows::io::{AsHandle, AsRawHandle, OwnedHandle},
    process::Child,
    ptr, thread,
    time::Duration,
};

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_BREAKAWAY_OK,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_PROCESS_ID_LIST,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicAccountingInformation,
    JobObjectBasicProcessIdList, JobObjectExtendedLimitInformation, QueryInformationJobObject,
    SetInformationJobObject, TerminateJobObject,
};

use super::{process::signal, system::owned};
use crate::{
    process::{Signal, name},
    signal::Told,
};

/// How often to look whether all processes have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How many processes are named at most.
const NAMED: usize = 64;

/// The command, and all that it has started.
#[derive(Debug)]
pub struct Family {
    /// `None` if there is no job to be had, or the command could not be put into it.
    job: Option<OwnedHandle>,
    command: Option<(OwnedHandle, u32)>,
}

impl Family {
    /// The family of a command which is about to be started. A broker leaves the job of whoever
    /// happens to start it.
    pub fn new(_: &'static str) -> Self {
        // SAFETY: It has no name and no attributes; the handle is new.
        let job = unsafe { owned(CreateJobObjectW(ptr::null(), ptr::null())) }.ok();
        if let Some(job) = &job {
            let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_BREAKAWAY_OK;
            // SAFETY: The handle is open, and what is read is as long as is said.
            unsafe {
                SetInformationJobObject(
                    job.as_raw_handle(),
                    JobObjectExtendedLimitInformation,
                    (&raw const limits).cast(),
                    size::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>(),
                );
            }
        }
        Self { job, command: None }
    }

    /// Adds the command. To be called right after the command's start, when it cannot have started
    /// anything itself: a process has libraries to load first. To start the command so that it
    /// waits for us would leave a process that waits for ever, and has the lock, if we were killed
    /// in between.
    pub fn begins(&mut self, command: &Child) {
        self.command =
            command.as_handle().try_clone_to_owned().ok().map(|handle| (handle, command.id()));
        let is_in = self.job.as_ref().is_some_and(|job| {
            // SAFETY: Both handles are open.
            unsafe { AssignProcessToJobObject(job.as_raw_handle(), command.as_raw_handle()) != 0 }
        });
        if !is_in {
            self.job = None;
        }
    }

    /// The command has ended, and was waited for.
    pub fn command_has_ended(&mut self) {
        self.command = None;
    }

    /// Tells the command, and with it the others of its process group, what a signal says.
    pub fn signal(&self, of: Signal) {
        if of == Signal::KILL {
            self.kill();
        } else if let Some((handle, number)) = &self.command {
            signal(handle.as_handle(), *number, of);
        }
    }

    /// Tells the command what we were told.
    pub fn pass_on(&self, told: Told) {
        self.signal(told.signal);
    }

    /// Ends all processes.
    pub fn kill(&self) {
        if let Some(job) = &self.job {
            // SAFETY: The handle is open.
            unsafe { TerminateJobObject(job.as_raw_handle(), Signal::KILL.exit_code()) };
        } else if let Some((handle, number)) = &self.command {
            signal(handle.as_handle(), *number, Signal::KILL);
        }
    }

    /// Waits until one of the processes may have ended, but no longer than this.
    pub fn wait(&self, time: Duration) {
        thread::sleep(time.min(CHECK_INTERVAL));
    }

    /// Whether all processes have ended.
    pub fn has_ended(&self) -> bool {
        let Some(job) = &self.job else { return self.command.is_none() };
        let mut found = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: The handle is open, and there is as much room as is said.
        let told = unsafe {
            QueryInformationJobObject(
                job.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut found).cast(),
                size::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>(),
                ptr::null_mut(),
            )
        };
        if told == 0 { self.command.is_none() } else { found.ActiveProcesses == 0 }
    }

    /// Which processes are still there, for people.
    pub fn names(&self) -> Vec<String> {
        let of_command = || self.command.iter().map(|(_, number)| *number).collect();
        let numbers = self.job.as_ref().and_then(numbers).unwrap_or_else(of_command);
        numbers.into_iter().map(|number| format!("{}[{number}]", name(number))).collect()
    }

    /// There is nothing to be done here when a process ends.
    #[expect(clippy::unused_self, reason = "as elsewhere")]
    pub fn reap(&self) {}
}

fn size<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or_default()
}

/// The numbers of the processes of a job.
fn numbers(job: &OwnedHandle) -> Option<Vec<u32>> {
    #[repr(C)]
    struct List {
        head: JOBOBJECT_BASIC_PROCESS_ID_LIST,
        rest: [usize; NAMED - 1],
    }
    let mut list = List { head: JOBOBJECT_BASIC_PROCESS_ID_LIST::default(), rest: [0; NAMED - 1] };
    // SAFETY: The handle is open, and there is as much room as is said.
    let told = unsafe {
        QueryInformationJobObject(
            job.as_raw_handle(),
            JobObjectBasicProcessIdList,
            (&raw mut list).cast(),
            size::<List>(),
            ptr::null_mut(),
        )
    };
    (told != 0).then_some(())?;
    let all = list.head.ProcessIdList.into_iter().chain(list.rest);
    let all = all.take(list.head.NumberOfProcessIdsInList as usize);
    Some(all.filter_map(|number| u32::try_from(number).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_that_a_command_has_started_are_ended_with_it() {
        let mut family = Family::new("NAVLOCK_STARTED_BY");
        let mut command = Command::new("cmd");
        command.args(["/d", "/c", "cmd /d /c set /p x="]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        family.begins(&child);
        assert!(!family.has_ended());
        assert!(family.names().iter().any(|name| name.starts_with("cmd[")), "{:?}", family.names());
        family.kill();
        assert_eq!(child.wait().unwrap().code(), Some(137));
        family.command_has_ended();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !family.has_ended() {
            assert!(std::time::Instant::now() < deadline, "{:?} has not ended", family.names());
            family.wait(Duration::from_secs(1));
        }
    }
}
