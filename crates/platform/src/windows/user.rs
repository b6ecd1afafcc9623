//! The user of this process, and the directories that are this user's own.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{ffi::OsString, os::windows::ffi::OsStringExt, path::PathBuf, ptr, slice};

use windows_sys::{
    Win32::{
        System::{
            Com::CoTaskMemFree,
            SystemInformation::{ComputerNameDnsHostname, GetComputerNameExW},
        },
        UI::Shell::{
            FOLDERID_LocalAppData, FOLDERID_Profile, FOLDERID_ProgramFiles,
            FOLDERID_RoamingAppData, KF_FLAG_DEFAULT, SHGetKnownFolderPath,
        },
    },
    core::GUID,
};

use super::security;

/// What tells a user from all others of the machine: a security identifier.
pub type UserId = security::Sid;

/// The user who may do anything.
pub const ROOT: UserId = security::SYSTEM;

/// The user of this process.
pub fn ours() -> UserId {
    security::ours()
}

/// The user's own directory: that which the system knows and not `%USERPROFILE%`, which a process
/// has from whoever happened to start it.
pub fn home() -> Option<PathBuf> {
    known(&FOLDERID_Profile).filter(|home| home.is_absolute())
}

fn known(which: &GUID) -> Option<PathBuf> {
    let mut text = ptr::null_mut();
    // SAFETY: It is the user of this process who is meant. What is made is freed below, also where it fails.
    let path = unsafe {
        let flags = u32::try_from(KF_FLAG_DEFAULT).unwrap_or_default();
        let failed = SHGetKnownFolderPath(which, flags, ptr::null_mut(), &raw mut text);
        let path = (failed >= 0 && !text.is_null()).then(|| {
            let length = (0..).take_while(|at| *text.add(*at) != 0).count();
            PathBuf::from(OsString::from_wide(slice::from_raw_parts(text, length)))
        });
        CoTaskMemFree(text.cast());
        path
    };
    path
}

/// The user's name: the identifier is enough here.
pub fn name() -> Option<String> {
    None
}

/// What tells a group of users from all others of the machine: here there are none.
pub type GroupId = u32;

/// Whether files can be shared with a group of users.
pub const HAS_GROUPS: bool = false;

/// A number that stands for this user: here there is none.
pub fn number(_: UserId) -> u32 {
    0
}

/// The user for whom this number stands: here it stands for this one.
pub fn of_number(_: u32) -> UserId {
    ours()
}

/// The name of this user: the identifier is enough here.
pub fn name_of(_: UserId) -> Option<String> {
    None
}

/// The group of this name: here there are none.
pub fn group(_: &str) -> Option<GroupId> {
    None
}

/// The name of this group, or else its number.
pub fn group_name(group: GroupId) -> String {
    group.to_string()
}

/// Whether this user belongs to the group: here there are none.
pub fn is_assigned(_: GroupId) -> bool {
    false
}

/// The name of the machine.
pub fn host() -> String {
    let mut text = [0_u16; 256];
    let mut length = 256;
    // SAFETY: There is as much room as is said.
    let told =
        unsafe { GetComputerNameExW(ComputerNameDnsHostname, text.as_mut_ptr(), &raw mut length) };
    let name = text.get(..length as usize).filter(|_| told != 0).unwrap_or_default();
    String::from_utf16_lossy(name)
}

/// A directory of this user alone. It may not be there yet. Its path follows from the user and this
/// name, and from nothing else.
pub fn runtime_directory(name: &str) -> PathBuf {
    // A user without a profile has no directory in which others could not be first; what is made
    // there is checked.
    known(&FOLDERID_LocalAppData)
        .unwrap_or_else(|| PathBuf::from(r"C:\ProgramData").join(ours().to_string()))
        .join(name)
}

/// A directory of this user for what outlives the machine's restart. Nobody need have made it yet.
/// `None` for a user without a profile.
pub fn state_directory(name: &str) -> Option<PathBuf> {
    known(&FOLDERID_LocalAppData).map(|local| local.join(name).join("state"))
}

/// The file of this user's settings. It need not be there. `None` for a user without a profile.
pub fn settings(name: &str) -> Option<PathBuf> {
    known(&FOLDERID_RoamingAppData).map(|roaming| roaming.join(name).join("config.toml"))
}

/// The file of the settings of all users of the machine, which only administrators can make. It is not in
/// `%ProgramData%`, where anybody can make a folder that is not there.
pub fn settings_of_all(name: &str) -> PathBuf {
    let programs = known(&FOLDERID_ProgramFiles);
    programs.unwrap_or_else(|| PathBuf::from(r"C:\Program Files")).join(name).join("config.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_user_is_in_what_is_its_own() {
        let directory = runtime_directory("navlock");
        assert!(directory.is_absolute() && directory.ends_with("navlock"));
        assert!(directory.starts_with(home().unwrap()));
        assert!(!host().is_empty());
        for found in [state_directory("navlock"), settings("navlock")] {
            assert!(found.unwrap().starts_with(home().unwrap()));
        }
        assert!(settings_of_all("navlock").is_absolute());
    }
}
