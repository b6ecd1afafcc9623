//! Being told when something is removed from a directory.

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
use std::{ffi::OsString, path::Path, sync::Arc};

use crate::descriptor::Descriptor;

/// Tells what is removed from a directory, and from another one in it.
#[derive(Debug)]
pub struct Watch {
    #[cfg(target_os = "linux")]
    events: Arc<Descriptor>,
    /// The system's number for the directory from which removed files are told by name.
    #[cfg(target_os = "linux")]
    named: Option<i32>,
    #[cfg(not(target_os = "linux"))]
    events: std::convert::Infallible,
}

/// What has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Changed {
    /// Files of these names were removed from the other directory, and nothing else has changed.
    Named(Vec<OsString>),
    /// Anything may have.
    Anything,
}

#[cfg(target_os = "linux")]
impl Watch {
    /// `None` if the system has no watch to give: then the caller looks now and then.
    pub fn of(directory: &Path) -> Option<Self> {
        use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let gone = WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&events, directory, gone).ok()?;
        Some(Self { events: Arc::new(events), named: None })
    }

    /// From now on tells by name what is removed from this directory, in place of an earlier one.
    pub fn name(&mut self, directory: &Path) {
        use rustix::fs::inotify::{self, WatchFlags};
        let gone = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        self.named = inotify::add_watch(&self.events, directory, gone).ok();
    }

    /// Whether it tells anything by name.
    pub fn names(&self) -> bool {
        self.named.is_some()
    }

    /// What can be read once something has changed.
    pub fn events(&self) -> &Arc<Descriptor> {
        &self.events
    }

    /// What has changed since the last call, if anything has.
    pub fn changed(&mut self) -> Option<Changed> {
        let (mut names, mut is_all, mut has_changed) = (Vec::new(), true, false);
        let mut bytes = [0_u8; 4096];
        // Read to the end, because that a directory is gone is told only once.
        while let Some(read) =
            rustix::io::read(&self.events, &mut bytes).ok().filter(|read| *read > 0)
        {
            has_changed = true;
            match self.named.and_then(|directory| names_in(&bytes[..read], directory)) {
                Some(more) => names.extend(more),
                None => is_all = false,
            }
        }
        let changed = if is_all { Changed::Named(names) } else { Changed::Anything };
        has_changed.then_some(changed)
    }
}

/// Readable once this file was removed or has another name. `None` if the system has no watch to give.
#[cfg(target_os = "linux")]
pub fn removal(file: &Path) -> Option<Descriptor> {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
    // The number of names of a file that is still open is one of its attributes.
    let gone = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
    inotify::add_watch(&events, file, gone).ok()?;
    Some(events)
}

/// `None`: this system has no such watch.
#[cfg(not(target_os = "linux"))]
pub fn removal(_: &Path) -> Option<Descriptor> {
    None
}

/// The names in these events; `None` if they are not all of that directory (inotify(7)).
#[cfg(target_os = "linux")]
fn names_in(mut bytes: &[u8], directory: i32) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<16>() {
        let words: [[u8; 4]; 4] =
            [0, 4, 8, 12].map(|at| [head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [of, _mask, _cookie, length] = words;
        let length = usize::try_from(u32::from_ne_bytes(length)).ok()?;
        let (name, rest) = rest.split_at_checked(length)?;
        // The name is filled up with zeros; an event without a name is about the directory itself.
        let name = name.split(|&byte| byte == 0).next().filter(|name| !name.is_empty());
        if i32::from_ne_bytes(of) != directory {
            return None;
        }
        names.push(OsStr::from_bytes(name?).to_owned());
        bytes = rest;
    }
    Some(names)
}

#[cfg(not(target_os = "linux"))]
#[allow(missing_docs, reason = "as on Linux, where there is such")]
impl Watch {
    pub fn of(_: &Path) -> Option<Self> {
        None
    }

    pub fn name(&mut self, _: &Path) {
        match self.events {}
    }

    pub fn names(&self) -> bool {
        match self.events {}
    }

    pub fn events(&self) -> &Arc<Descriptor> {
        match self.events {}
    }

    pub fn changed(&mut self) -> Option<Changed> {
        match self.events {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_removed_file_is_told_by_its_name_or_else_as_an_unknown_change() {
        let directory = tempfile::tempdir().unwrap();
        let [clients, ours] = ["clients", "ours"].map(|name| directory.path().join(name));
        fs::create_dir(&clients).unwrap();
        fs::write(&ours, "").unwrap();
        let files: Vec<_> = (0..300).map(|number| clients.join(format!("{number:032}"))).collect();
        for file in &files {
            fs::write(file, "").unwrap();
        }
        let mut watch = Watch::of(directory.path()).unwrap();
        watch.name(&clients);
        // More than is read at once.
        for file in &files {
            fs::remove_file(file).unwrap();
        }
        // The kernel notes each removal before the call returns.
        let Some(Changed::Named(names)) = watch.changed() else { panic!("no names") };
        assert!(files.iter().map(|file| file.file_name().unwrap()).eq(&names));
        assert_eq!(watch.changed(), None);
        fs::remove_file(&ours).unwrap();
        assert_eq!(watch.changed(), Some(Changed::Anything));
        fs::remove_dir(&clients).unwrap();
        assert_eq!(watch.changed(), Some(Changed::Anything));
    }
}
