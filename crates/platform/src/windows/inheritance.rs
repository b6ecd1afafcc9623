//! Putting away what a process has inherited from the process that has started it: handles that its
//! starter had from others in turn, or had open so that all processes that it starts have them.
//! Limits are those of a job.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use windows_sys::{
    Wdk::{
        Storage::FileSystem::{FileFsDeviceInformation, NtQueryVolumeInformationFile},
        System::SystemServices::FILE_FS_DEVICE_INFORMATION,
    },
    Win32::{
        Foundation::{CloseHandle, GetHandleInformation, HANDLE, HANDLE_FLAG_INHERIT},
        System::{
            Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE},
            IO::IO_STATUS_BLOCK,
            Ioctl::FILE_DEVICE_CONSOLE,
        },
    },
};

use crate::{descriptor, socket::Listener};

/// Handles are multiples of this.
const STEP: usize = 4;

/// No handle is looked for beyond this number, whatever the system counts.
const MOST: usize = 1 << 16;

/// After how many numbers without a handle the search ends where the system does not count them.
/// Wine gives the lowest number that is free, and takes a second to be asked for all numbers.
const GAP: usize = 256;

/// Puts away what a broker has from its starter: nothing here.
pub fn leave(_: bool) {}

/// Nothing here: the directories in which this process makes files keep them its user's alone.
pub fn keep_files_private() {}

/// Nothing here: there are no signals that a starter could have ignored.
pub fn reset_signals() {}

/// Whether this process was started with a standard output.
pub fn has_output() -> bool {
    use std::os::windows::io::AsRawHandle;
    !std::io::stdout().as_raw_handle().is_null()
}

/// Closes the handles that are open because a starter had them open: ends of pipes whose closing
/// somebody else waits for, and objects that keep files locked. The standard streams are left.
/// Nobody passes a socket here.
///
/// To be called before anything is opened.
///
/// # Errors
///
/// None here.
pub fn close_inherited() -> Result<Option<Listener>, String> {
    let streams = [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE];
    // SAFETY: Numbers are given.
    let streams = streams.map(|stream| unsafe { GetStdHandle(stream) });
    let (mut open, mut gap) = (0, 0);
    for number in (STEP..MOST).step_by(STEP) {
        // Handles are counted anew each time, as the system may open some meanwhile.
        if descriptor::open_count().map_or(gap == GAP, |count| open >= count) {
            break;
        }
        let handle = number as HANDLE;
        let mut flags = 0;
        // SAFETY: It is asked whether there is such a handle.
        if unsafe { GetHandleInformation(handle, &raw mut flags) } == 0 {
            gap += 1;
            continue;
        }
        gap = 0;
        let is_own = flags & HANDLE_FLAG_INHERIT == 0 || streams.contains(&handle);
        // The console has handles of its own in this process, which it goes on to use.
        //
        // SAFETY: There is such a handle.
        if is_own || unsafe { is_console(handle) } {
            open += 1;
            continue;
        }
        // SAFETY: What this program opens itself is not inherited. So the handle is the starter's,
        // and nothing here uses it.
        if unsafe { CloseHandle(handle) } == 0 {
            open += 1;
        }
    }
    Ok(None)
}

/// Whether it is a handle of the console. The type of the file would be the same for a serial port,
/// which one process alone can have.
///
/// # Safety
///
/// There is such a handle.
unsafe fn is_console(handle: HANDLE) -> bool {
    let mut status = IO_STATUS_BLOCK::default();
    let mut found = FILE_FS_DEVICE_INFORMATION::default();
    let size = u32::try_from(size_of::<FILE_FS_DEVICE_INFORMATION>()).unwrap_or_default();
    // SAFETY: The caller says that there is such a handle, and there is as much room as is said.
    let answer = unsafe {
        NtQueryVolumeInformationFile(
            handle,
            &raw mut status,
            (&raw mut found).cast(),
            size,
            FileFsDeviceInformation,
        )
    };
    answer >= 0 && found.DeviceType == FILE_DEVICE_CONSOLE
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs::File,
        os::windows::{io::AsRawHandle, process::CommandExt},
        process::Command,
    };

    use windows_sys::Win32::{
        Foundation::SetHandleInformation,
        Storage::FileSystem::{FILE_TYPE_CHAR, GetFileType},
        System::Threading::CREATE_NO_WINDOW,
    };

    use super::*;

    const HAS_CONSOLE: &str = "NAVLOCK_TEST_HAS_CONSOLE";
    const INHERITED: &str = "NAVLOCK_TEST_INHERITED";

    /// Runs the test once more, in a process that has a console of its own, with this variable.
    fn run_again(test: &str, variable: &str, value: &str) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", &format!("windows::inheritance::tests::{test}")]);
        command.env(variable, value).creation_flags(CREATE_NO_WINDOW);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn a_handle_that_a_starter_had_open_is_closed() {
        let Ok(number) = env::var(INHERITED) else {
            let file = File::open(env::current_exe().unwrap()).unwrap();
            let handle = file.as_raw_handle();
            let flag = HANDLE_FLAG_INHERIT;
            // SAFETY: The file is open.
            assert_ne!(unsafe { SetHandleInformation(handle, flag, flag) }, 0);
            let number = (handle as usize).to_string();
            return run_again("a_handle_that_a_starter_had_open_is_closed", INHERITED, &number);
        };
        let is_open = || {
            let handle = number.parse::<usize>().unwrap() as HANDLE;
            let mut flags = 0;
            // SAFETY: It is asked whether there is such a handle.
            unsafe { GetHandleInformation(handle, &raw mut flags) != 0 }
        };
        assert!(is_open(), "it was not inherited");
        close_inherited().unwrap();
        assert!(!is_open());
    }

    #[test]
    fn a_console_is_known_from_other_devices() {
        if env::var_os(HAS_CONSOLE).is_none() {
            return run_again("a_console_is_known_from_other_devices", HAS_CONSOLE, "1");
        }
        for (name, expected) in [("CONOUT$", true), ("CONIN$", true), ("NUL", false)] {
            let file = File::options().read(true).write(true).open(name).unwrap();
            let handle = file.as_raw_handle();
            // SAFETY: The file is open.
            let (kind, found) = unsafe { (GetFileType(handle), is_console(handle)) };
            assert_eq!((kind, found), (FILE_TYPE_CHAR, expected), "{name}");
        }
    }
}
