//! Who may do what: identifiers of users, and what stands in the security descriptors of files and pipes.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    ffi::c_void,
    fmt, io,
    os::windows::io::{AsRawHandle, BorrowedHandle, OwnedHandle},
    ptr, slice,
    sync::OnceLock,
};

use windows_sys::Win32::{
    Foundation::{GENERIC_ALL, GENERIC_READ, GENERIC_WRITE, HANDLE, LocalFree},
    Security::{
        ACCESS_ALLOWED_ACE, ACE_HEADER, ACL,
        Authorization::{
            ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
            SE_FILE_OBJECT, SetSecurityInfo,
        },
        DACL_SECURITY_INFORMATION, GetAce, GetLengthSid, GetSecurityDescriptorDacl,
        GetTokenInformation, IsValidSid, OWNER_SECURITY_INFORMATION,
        PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES,
        TOKEN_OWNER, TOKEN_QUERY, TOKEN_USER, TokenOwner, TokenUser,
    },
    Storage::FileSystem::{
        DELETE, FILE_APPEND_DATA, FILE_DELETE_CHILD, FILE_EXECUTE, FILE_READ_DATA, FILE_WRITE_DATA,
        WRITE_DAC, WRITE_OWNER,
    },
    System::Threading::{GetCurrentProcess, OpenProcessToken},
};

use super::system::{checked, owned, wide};

/// The longest security identifier that there is, in bytes.
const LONGEST: usize = 68;

/// A security identifier: what tells a user, or a group, from all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sid {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Sid {
    /// An identifier that all machines have: an authority, and its numbers.
    const fn known<const N: usize>(authority: u8, numbers: [u32; N]) -> Self {
        let mut bytes = [0; LONGEST];
        bytes[0] = 1;
        bytes[7] = authority;
        let mut at = 0;
        while at < N {
            let number = numbers[at].to_le_bytes();
            let mut of = 0;
            while of < 4 {
                bytes[8 + at * 4 + of] = number[of];
                of += 1;
            }
            bytes[1] += 1;
            at += 1;
        }
        Self { bytes, length: 8 + N * 4 }
    }

    /// # Safety
    ///
    /// It points to a security identifier, or is null.
    unsafe fn read(sid: PSID) -> Option<Self> {
        // SAFETY: The caller says so. Its length is that of what it points to.
        let given = unsafe {
            if sid.is_null() || IsValidSid(sid) == 0 {
                return None;
            }
            slice::from_raw_parts(sid.cast::<u8>(), GetLengthSid(sid) as usize)
        };
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..given.len())?.copy_from_slice(given);
        Some(Self { bytes, length: given.len() })
    }
}

/// Nobody.
pub(crate) const NOBODY: Sid = Sid::known(0, [0]);
/// The system itself, which may do anything.
pub(crate) const SYSTEM: Sid = Sid::known(5, [18]);
/// The administrators of the machine, who may do anything once they ask for it.
const ADMINISTRATORS: Sid = Sid::known(5, [32, 544]);
/// Whoever owns the object in whose list this stands.
const OWNER_RIGHTS: Sid = Sid::known(3, [4]);
/// Whoever makes something in a directory.
const CREATOR_OWNER: Sid = Sid::known(3, [0]);

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority =
            self.bytes[2..8].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        write!(f, "S-{}-{authority}", self.bytes[0])?;
        for number in self.bytes[8..self.length].chunks_exact(4) {
            let number = number.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
            write!(f, "-{number}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The user of this process.
pub(crate) fn ours() -> Sid {
    of_token().0
}

/// Who we are, and who owns what we make: for a process with the rights of an administrator, the
/// owner may be all administrators.
fn of_token() -> (Sid, Sid) {
    static OURS: OnceLock<(Sid, Sid)> = OnceLock::new();
    *OURS.get_or_init(|| {
        // SAFETY: The handle of this process is one that is not closed.
        let token = unsafe { token(GetCurrentProcess()) };
        let token = token.as_ref();
        let user = token.ok().and_then(user_of).unwrap_or(NOBODY);
        (user, token.ok().and_then(owner_of_new).unwrap_or(user))
    })
}

/// The user of the process that this handle is of.
pub(crate) fn user_of_process(process: BorrowedHandle<'_>) -> Option<Sid> {
    // SAFETY: The handle is open for as long as it is borrowed.
    user_of(&unsafe { token(process.as_raw_handle()) }.ok()?)
}

/// # Safety
///
/// It is the handle of a process.
unsafe fn token(process: HANDLE) -> io::Result<OwnedHandle> {
    let mut token = ptr::null_mut();
    // SAFETY: The caller says what it is. The token is new.
    unsafe {
        checked(OpenProcessToken(process, TOKEN_QUERY, &raw mut token))?;
        owned(token)
    }
}

/// Room for what a token says of a user: a pointer, and the largest identifier that it can point
/// to.
type Room = [u64; 16];

fn user_of(token: &OwnedHandle) -> Option<Sid> {
    let mut room: Room = [0; 16];
    asked(token, TokenUser, &mut room)?;
    // SAFETY: The call has put this there, and an identifier behind it in the same room.
    unsafe { Sid::read((*room.as_ptr().cast::<TOKEN_USER>()).User.Sid) }
}

fn owner_of_new(token: &OwnedHandle) -> Option<Sid> {
    let mut room: Room = [0; 16];
    asked(token, TokenOwner, &mut room)?;
    // SAFETY: As in `user_of`.
    unsafe { Sid::read((*room.as_ptr().cast::<TOKEN_OWNER>()).Owner) }
}

fn asked(token: &OwnedHandle, what: i32, room: &mut Room) -> Option<()> {
    let mut length = 0;
    let size = u32::try_from(size_of::<Room>()).ok()?;
    // SAFETY: There is as much room as is said.
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            what,
            room.as_mut_ptr().cast(),
            size,
            &raw mut length,
        )
    };
    checked(done).ok()
}

/// A security descriptor.
#[derive(Debug)]
pub(crate) struct Descriptor(PSECURITY_DESCRIPTOR);

// SAFETY: It is memory that nothing changes.
unsafe impl Send for Descriptor {}
// SAFETY: As above.
unsafe impl Sync for Descriptor {}

impl Descriptor {
    /// The descriptor for a file that nobody but this user and the system may touch, or for such a
    /// directory and what is made in it.
    pub(crate) fn of_file(is_directory: bool) -> io::Result<Self> {
        let flags = if is_directory { "OICI" } else { "" };
        Self::written(&format!("D:P(A;{flags};FA;;;{})(A;{flags};FA;;;SY)", ours()))
    }

    /// The descriptor for an object that is no file, and that nobody but this user may touch.
    pub(crate) fn private() -> io::Result<Self> {
        Self::written(&format!("D:P(A;;GA;;;{})", ours()))
    }

    fn written(text: &str) -> io::Result<Self> {
        let text = wide(text);
        let mut descriptor = ptr::null_mut();
        // SAFETY: The text ends with a zero; what is made is ours to free.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                ptr::null_mut(),
            )
        };
        checked(done).map(|()| Self(descriptor))
    }

    /// The attributes for a call that makes something. They must not be used longer than this
    /// descriptor is there.
    pub(crate) fn attributes(&self, is_inherited: bool) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or_default(),
            lpSecurityDescriptor: self.0,
            bInheritHandle: i32::from(is_inherited),
        }
    }

    fn dacl(&self) -> *mut ACL {
        let (mut present, mut dacl, mut defaulted) = (0, ptr::null_mut(), 0);
        // SAFETY: It is a security descriptor for as long as this value.
        unsafe {
            GetSecurityDescriptorDacl(self.0, &raw mut present, &raw mut dacl, &raw mut defaulted);
        }
        dacl
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: The calls that made it say that it is freed so, and nobody has it any more.
        unsafe { LocalFree(self.0) };
    }
}

/// Makes sure that nobody but this user and the system can do anything with this file.
pub(crate) fn make_private(file: BorrowedHandle<'_>) -> io::Result<()> {
    let descriptor = Descriptor::of_file(false)?;
    // SAFETY: The handle is open, and the list is part of the descriptor, which outlives the call.
    let failed = unsafe {
        SetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
            ptr::null_mut(),
            ptr::null_mut(),
            descriptor.dacl(),
            ptr::null(),
        )
    };
    result(failed)
}

fn result(failed: u32) -> io::Result<()> {
    match failed {
        0 => Ok(()),
        failed => Err(io::Error::from_raw_os_error(failed.cast_signed())),
    }
}

/// Who owns a file or directory, and what others may do with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// This user also where all administrators own what one of them makes, and we are one.
    pub(crate) owner: Sid,
    pub(crate) others_read: bool,
    pub(crate) others_write: bool,
}

/// What the security descriptor of a file says.
pub(crate) fn access(file: BorrowedHandle<'_>) -> io::Result<Access> {
    let (mut owner, mut dacl, mut descriptor) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: The handle is open; what is written are pointers into the descriptor, which is ours to free.
    let failed = unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            &raw mut owner,
            ptr::null_mut(),
            &raw mut dacl,
            ptr::null_mut(),
            &raw mut descriptor,
        )
    };
    result(failed)?;
    let descriptor = Descriptor(descriptor);
    // SAFETY: Both point into the descriptor, or are null.
    let (owner, granted) = unsafe { (Sid::read(owner), granted_to_others(dacl)) };
    drop(descriptor);
    let (user, makes) = of_token();
    let owner = owner.unwrap_or(NOBODY);
    let owner = if owner == makes { user } else { owner };
    const READ: u32 = FILE_READ_DATA | FILE_EXECUTE | GENERIC_READ | GENERIC_ALL;
    const WRITE: u32 = FILE_WRITE_DATA
        | FILE_APPEND_DATA
        | FILE_DELETE_CHILD
        | DELETE
        | WRITE_DAC
        | WRITE_OWNER
        | GENERIC_WRITE
        | GENERIC_ALL;
    Ok(Access { owner, others_read: granted & READ != 0, others_write: granted & WRITE != 0 })
}

/// All rights that this list gives to anybody but us and those who may do anything anyway. Entries
/// that deny rights are not looked at: with them, the file is less open than this says.
///
/// # Safety
///
/// It points to a list, or is null.
unsafe fn granted_to_others(dacl: *const ACL) -> u32 {
    const ALLOWED: u8 = 0;
    /// Of whatever kind: plain, for a part of an object, with a condition, or both.
    const DENIED: [u8; 4] = [1, 6, 10, 12];
    const INHERITED_ONLY: u8 = 8;
    if dacl.is_null() {
        // Without a list everybody may do everything.
        return u32::MAX;
    }
    let us = [of_token().0, of_token().1];
    let trusted = [SYSTEM, ADMINISTRATORS, OWNER_RIGHTS, CREATOR_OWNER];
    let mut granted = 0;
    // SAFETY: The caller says what it is. All entries begin with a header and a mask, and those of
    // the plain kind have an identifier behind that.
    unsafe {
        for index in 0..u32::from((*dacl).AceCount) {
            let mut entry: *mut c_void = ptr::null_mut();
            if GetAce(dacl, index, &raw mut entry) == 0 {
                return u32::MAX;
            }
            let header = *entry.cast::<ACE_HEADER>();
            if header.AceFlags & INHERITED_ONLY != 0 || DENIED.contains(&header.AceType) {
                continue;
            }
            let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
            // What allows something by a condition may allow it to anybody.
            let who = match header.AceType {
                ALLOWED => Sid::read((&raw mut (*entry).SidStart).cast()).unwrap_or(NOBODY),
                _ => NOBODY,
            };
            if !us.contains(&who) && !trusted.contains(&who) {
                granted |= (*entry).Mask;
            }
        }
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_written_as_windows_writes_them() {
        let written = [NOBODY, SYSTEM, ADMINISTRATORS, OWNER_RIGHTS, CREATOR_OWNER];
        let written = written.map(|sid| sid.to_string());
        assert_eq!(written, ["S-1-0-0", "S-1-5-18", "S-1-5-32-544", "S-1-3-4", "S-1-3-0"]);
        assert_ne!(ours(), NOBODY);
    }
}
