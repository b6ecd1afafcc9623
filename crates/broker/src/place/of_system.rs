//! The place of the machine's broker.

use std::{fs, io};

use navlock_platform::{
    file::{create_private_directory, group_at, owner_at, share_with},
    socket::is_at,
    user::{GroupId, HAS_GROUPS, ROOT, UserId, group_name, ours},
};

use super::{Kind, Others, Place, PlaceError, check_directory};

impl Place {
    /// Makes the directory if it does not exist, and lets the members of this group in, who can connect and
    /// change nothing.
    ///
    /// # Errors
    ///
    /// If this process may not do so, or the directory is another's.
    pub(crate) fn prepare_system(&self, group: GroupId) -> Result<(), PlaceError> {
        let directory = self.directory();
        let failed = |error: io::Error| PlaceError::Io(directory.to_owned(), error.into());
        match create_private_directory(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let found = fs::symlink_metadata(directory).map_err(failed)?;
        if !found.is_dir() {
            return Err(PlaceError::NotADirectory(directory.to_owned()));
        }
        let owner = owner_at(directory, &found);
        if owner != ours() {
            return Err(PlaceError::OtherUser(directory.to_owned(), owner));
        }
        share_with(directory, group, 0o750).map_err(failed)
    }

    /// Checks what [`check`](Self::check) does. The directory is its broker's, who may be any user: whom `/run`
    /// belongs to, or who has named another directory, decides who that is.
    pub(super) fn check_system(&self) -> Result<(), PlaceError> {
        if !HAS_GROUPS {
            return Err(PlaceError::NoSystem);
        }
        let directory = self.directory();
        let found = fs::symlink_metadata(directory)
            .map_err(|error| PlaceError::Io(directory.to_owned(), error.into()))?;
        check_directory(directory, owner_at(directory, &found), Others::MayLook)?;
        match fs::symlink_metadata(&self.socket) {
            Ok(socket) if !is_at(&self.socket, &socket) => {
                Err(PlaceError::NotASocket(self.socket.clone()))
            }
            Ok(socket) if !self.is_trusted(owner_at(&self.socket, &socket)) => {
                Err(PlaceError::OtherUser(self.socket.clone(), owner_at(&self.socket, &socket)))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let group = group_name(group_at(&found));
                Err(PlaceError::NotAllowed(directory.to_owned(), group))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PlaceError::Io(self.socket.clone(), error.into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a broker of this user may serve here. The socket of the machine's broker may have been made by
    /// root, who passes it to a broker with fewer rights.
    pub(crate) fn is_trusted(&self, user: UserId) -> bool {
        let owner = || {
            let found = fs::symlink_metadata(self.directory()).ok()?;
            Some(owner_at(self.directory(), &found))
        };
        match self.kind {
            Kind::System => user == ROOT || owner() == Some(user),
            Kind::Private | Kind::Chosen => user == ours(),
        }
    }
}
