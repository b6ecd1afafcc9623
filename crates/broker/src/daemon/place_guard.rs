//! Guards the files of a daemon in its place.
//!
//! People, and programs that clean up old files, remove files that look like rubbish. Then a new client
//! finds no daemon, and starts another one, with locks of its own. So a daemon notices at once that one
//! of its files is gone, and makes the file anew. If it has no clients, it ends. As long as it lives, the
//! daemon also has a lock file outside of the place, which tells another daemon to wait.

use std::{
    fs::{self, File},
    future::pending,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use navlock_platform::{
    file::{create_private_directory, open_directory, touch},
    file_lock::try_shared,
    user::GroupId,
    watch::{Changed, Watch},
};

use super::{
    awaited::Awaited,
    daemon_error::DaemonError,
    listening::{Listening, listen},
    place_lock::{LockAttempt, PAUSE, lock_aside, lock_name, note, shared_directories, take},
    state::Daemon,
    timers::{sleep, timeout},
};
use crate::{
    LOGS, Place,
    client_files::ClientFiles,
    lock_file::{self, Identity},
};

/// How often the daemon looks for its files, if the kernel does not report removals.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How often the daemon renews the times of its files, because cleaners remove old files.
const TOUCH: Duration = Duration::from_secs(600);

/// The directories in which cleaners remove old files.
const CLEANED: [&str; 2] = ["/tmp", "/var/tmp"];

/// How long a daemon waits for the end of the earlier daemon.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// The lock files that make a daemon the only one, and its other files in its place.
pub(super) struct PlaceGuard<'a> {
    place: &'a Place,
    /// The group that shares the place, if one does.
    group: Option<GroupId>,
    /// The lock files outside of the place, which stay if somebody empties the place.
    elsewhere: Vec<(PathBuf, File)>,
    /// The lock file in the place.
    sole: File,
    socket: Option<Identity>,
    /// Whether somebody else has passed the socket. Such a socket is not made anew.
    is_passed: bool,
    /// The directory of client files. It is kept open, so that no other directory gets the same
    /// identity if this one is removed.
    clients: Option<File>,
    /// The place's directory, which is kept open, and whether it is locked against cleaners.
    directory: Option<(File, bool)>,
    watch: Option<Watch>,
    touched: Option<Instant>,
}

/// What a look at the place has found.
enum PlaceState {
    Whole,
    /// Something was made anew. The clients have to check their own files.
    Mended,
    /// Another daemon has the place.
    Lost,
    /// Files were removed, and nobody needs them.
    Unused,
}

impl<'a> PlaceGuard<'a> {
    /// Makes this the only daemon of the place, as soon as the earlier daemon has ended.
    pub(super) fn take(
        place: &'a Place,
        state: Option<&Path>,
        group: Option<GroupId>,
    ) -> Result<Self, DaemonError> {
        let deadline = Instant::now() + PREDECESSOR;
        // The lock files that nobody removes come first: a daemon that has such a file locked may
        // be about to make the other lock file anew.
        let mut elsewhere = Vec::new();
        if let Some(name) = lock_name(place) {
            let lock = |directory: &Path| {
                let path = directory.join(&name);
                let file = take(place, &path, deadline, |path| Ok(lock_aside(path)))?;
                Ok::<_, DaemonError>(file.map(|file| (path, file)))
            };
            if let Some(state) = state {
                elsewhere.extend(lock(state)?);
            }
            // The user may have no home, and the home may not answer. Whether it answers can change
            // between two daemons, so every daemon takes this lock file too.
            for directory in shared_directories() {
                if let Some(locked) = lock(&directory)? {
                    elsewhere.push(locked);
                    break;
                }
            }
        }
        let path = place.broker_lock();
        let lock = |path: &Path| lock_file::lock(path, PAUSE).map(LockAttempt::of);
        let Some(sole) = take(place, &path, deadline, lock)? else {
            return Err(DaemonError::Taken(path));
        };
        note(&sole);
        let mut place_guard = Self {
            place,
            group,
            elsewhere,
            sole,
            socket: None,
            is_passed: false,
            clients: None,
            directory: None,
            watch: None,
            touched: None,
        };
        place_guard.enter();
        Ok(place_guard)
    }

    /// To be called once the socket has its final name.
    pub(super) fn listens(&mut self, is_passed: bool) {
        self.is_passed = is_passed;
        self.socket = lock_file::identity_at(self.place.socket());
        // The directory is opened now, so that its removal is noticed.
        self.open_clients();
    }

    fn open_clients(&mut self) {
        // If this fails, the first client makes the directory.
        let _ = create_private_directory(&self.place.clients());
        self.clients = open_directory(&self.place.clients()).ok();
        if let Some(watch) = &mut self.watch {
            watch.name(&self.place.clients());
        }
    }

    /// Whether the socket that others find at the place is still the one that this daemon may
    /// remove.
    pub(super) fn has_socket(&self) -> bool {
        !self.is_passed && lock_file::identity_at(self.place.socket()) == self.socket
    }

    /// Makes all files of the place anew when they are removed. Returns when somebody else has the
    /// place, or when files were removed while the daemon had no clients: then somebody removes the whole
    /// directory, which would not work if files came back.
    pub(super) async fn keep(&mut self, listening: &Listening, daemon: &Daemon) {
        loop {
            match self.look(listening, daemon) {
                PlaceState::Whole => {}
                PlaceState::Mended => {
                    tracing::warn!(target: LOGS, "files of the broker were removed, and are made anew");
                    daemon.ask_to_register();
                }
                PlaceState::Lost => {
                    tracing::warn!(target: LOGS, "another broker has the place; this one ends");
                    return;
                }
                // To log this would make the log anew.
                PlaceState::Unused => return,
            }
            self.wait(daemon).await;
        }
    }

    /// Waits until it is time to look for the files again.
    async fn wait(&mut self, daemon: &Daemon) {
        let look = async |watch: &mut Watch| {
            // Without this, the daemon looks as often.
            let Ok(events) = Awaited::new(watch.events()) else { return pending().await };
            loop {
                let changed =
                    events.when_ready(|_| watch.changed().ok_or(ErrorKind::WouldBlock.into()));
                match changed.await {
                    // Clients remove their own files when they end. If only such a file has gone, there is no
                    // need to look at the others.
                    Ok(Changed::Named(names)) => daemon.ask_whose_file_is_gone(Some(&names)),
                    Ok(Changed::Anything) | Err(_) => return,
                }
            }
        };
        match &mut self.watch {
            Some(watch) => _ = timeout(CHECK_INTERVAL, look(watch)).await,
            None => sleep(CHECK_INTERVAL).await,
        }
        if !self.watch.as_ref().is_some_and(Watch::names) {
            daemon.ask_whose_file_is_gone(None);
        }
    }

    fn look(&mut self, listening: &Listening, daemon: &Daemon) -> PlaceState {
        let mut stands = PlaceState::Whole;
        if daemon.is_unused() && self.misses_files() {
            return PlaceState::Unused;
        }
        if !lock_file::is_at(&self.sole, &self.place.broker_lock()) {
            // The directory may be gone as well. If something cannot be made now, the next look
            // tries again.
            let prepared = match self.group {
                Some(group) => self.place.prepare_system(group),
                None => self.place.prepare(),
            };
            if prepared.is_err() {
                return PlaceState::Whole;
            }
            match lock_file::lock(&self.place.broker_lock(), Duration::ZERO) {
                Ok(Some(sole)) => {
                    note(&sole);
                    self.sole = sole;
                }
                Ok(None) => return PlaceState::Lost,
                Err(_) => return PlaceState::Whole,
            }
            stands = PlaceState::Mended;
        }
        self.enter();
        // From here on this daemon has the place: another daemon finds the lock taken.
        let socket = lock_file::identity_at(self.place.socket());
        if socket != self.socket {
            if socket.is_some() || self.is_passed {
                return PlaceState::Lost;
            }
            if let Ok(socket) = listen(self.place, self.group) {
                listening.replace(socket);
                self.socket = lock_file::identity_at(self.place.socket());
            }
        }
        let is_there = |clients: &File| lock_file::is_at(clients, &self.place.clients());
        if !self.clients.as_ref().is_some_and(is_there) {
            self.open_clients();
            if self.clients.is_some() {
                stands = PlaceState::Mended;
                ClientFiles::of(self.place).note_removal();
            }
        }
        if self.touched.is_none_or(|touched| touched.elapsed() >= TOUCH) {
            touch_all(self.place);
            self.touched = Some(Instant::now());
        }
        stands
    }

    fn misses_files(&self) -> bool {
        let clients = self.clients.is_some().then(|| self.place.clients());
        let files = [self.place.broker_lock(), self.place.socket().to_owned()];
        files.into_iter().chain(clients).any(|file| {
            fs::symlink_metadata(file).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        })
    }

    /// Watches the directory that is there now, and locks it against cleaners of old files. The
    /// lock works with careful cleaners such as systemd-tmpfiles, which skips directories that
    /// somebody has locked (tmpfiles.d(5)), and recognises sockets in use by the path at which they
    /// were bound.
    fn enter(&mut self) {
        let path = self.place.directory();
        let is_there = |(directory, _): &(File, bool)| lock_file::is_at(directory, path);
        if !self.directory.as_ref().is_some_and(is_there) {
            self.watch = Watch::of(path);
            self.directory = open_directory(path).ok().map(|directory| (directory, false));
        }
        // Outside of these directories, the owner of the directory may lock it for other purposes,
        // for example with flock(1).
        let is_cleaned = || CLEANED.iter().any(|cleaned| path.starts_with(cleaned));
        if let Some((directory, is_locked)) = self.directory.as_mut().filter(|_| is_cleaned()) {
            // The lock is a shared one, because several brokers may have been given one directory.
            // If a cleaner has the directory locked for a moment, the next look tries again.
            *is_locked = *is_locked || matches!(try_shared(directory), Ok(true));
        }
    }
}

impl Drop for PlaceGuard<'_> {
    fn drop(&mut self) {
        for (path, file) in &self.elsewhere {
            lock_file::remove(path, file);
        }
    }
}

/// Renews the times of all files, so that they do not look old to cleaners.
fn touch_all(place: &Place) {
    let clients = fs::read_dir(place.clients()).into_iter().flatten().flatten();
    let ours = [
        place.directory().to_owned(),
        place.socket().to_owned(),
        place.broker_lock(),
        place.spawn_lock(),
        place.tokens(),
        place.log(),
        place.faults(),
        place.clients(),
    ];
    for path in ours.into_iter().chain(clients.map(|entry| entry.path())) {
        let _ = touch(&path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn files_that_are_in_use_do_not_grow_old() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path().join("sock"));
        fs::create_dir(place.clients()).unwrap();
        let files = [place.broker_lock(), place.tokens(), place.clients().join("0")];
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for file in &files {
            File::create(file).unwrap().set_modified(old).unwrap();
        }
        touch_all(&place);
        for file in &files {
            let found = fs::metadata(file).unwrap();
            assert!(found.modified().unwrap().elapsed().unwrap() < Duration::from_secs(600));
            assert!(found.accessed().unwrap().elapsed().unwrap() < Duration::from_secs(600));
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn removing_all_files_does_not_make_room_for_a_second_daemon() {
        let (directory, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = Place::at(directory.path().join("navlock/sock"));
        fs::create_dir(place.directory()).unwrap();
        let first = PlaceGuard::take(&place, Some(state.path()), None).unwrap();
        fs::remove_dir_all(place.directory()).unwrap();
        fs::create_dir(place.directory()).unwrap();
        let second = PlaceGuard::take(&place, Some(state.path()), None);
        assert!(matches!(second, Err(DaemonError::Taken(path)) if path.starts_with(state.path())));
        drop(first);
        drop(PlaceGuard::take(&place, Some(state.path()), None).unwrap());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0, "something was left");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn without_a_home_or_with_one_that_is_gone_there_is_no_second_daemon_either() {
        let (directory, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let place = Place::at(directory.path().join("navlock/sock"));
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let no_directory = file.join("state");
        for (one, other) in [(None, None), (Some(state.path()), Some(no_directory.as_path()))] {
            let _ = fs::create_dir(place.directory());
            let first = PlaceGuard::take(&place, one, None).unwrap();
            fs::remove_dir_all(place.directory()).unwrap();
            fs::create_dir(place.directory()).unwrap();
            let second = PlaceGuard::take(&place, other, None);
            assert!(matches!(second, Err(DaemonError::Taken(_))), "{one:?}, {other:?}");
            let left: Vec<_> = first.elsewhere.iter().map(|(path, _)| path.clone()).collect();
            drop(first);
            assert!(left.iter().all(|path| !path.exists()), "something was left");
        }
    }
}
