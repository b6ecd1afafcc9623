//! Who lives: the files by which a daemon knows the clients of the one before it, and those who have
//! inherited locks.
//!
//! That a file is there means nothing; what counts is that it is locked, and the kernel unlocks it
//! with the last process that has it open.
//!
//! - `KEY` is locked by a client itself, for as long as it lives. It is empty, or a map of what the
//!   client holds and of the names that it owns (`navlock_delegation`).
//! - `KEY.locks` is locked by whoever has inherited locks of that client, as the command of a `navlock
//!   run` has. It holds what the client would claim, in the very messages.
//! - `KEY.leases` nobody locks. Where locks are kept elsewhere for the time of a lease, the daemon notes
//!   here which leases the client's agents have, so that its successor can end them if the client is
//!   dead by then.
//! - `KEY.broker` is locked by a daemon, for as long as it lives, and `KEY` is no client's. There it notes which
//!   leases it has itself: names that stay its machine's stand under them and are no client's.
//!
//! That the own file of a client stands where it made it says one thing more: nobody was granted what
//! the client holds. A daemon removes it before it frees what a client had whom it gives up, be it that
//! the client did not come back in time or that it was hung up on. So a client that is without a
//! daemon holds what it holds as long as its file stands, however long that is, and has lost it
//! otherwise. Of the locks that others have inherited, `KEY.locks` says the same.
//!
//! Who removes these files by hand takes the broker's memory: nothing changes while it lives, but when
//! it is killed those whose files are gone have lost their locks, and are told so.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind, Read, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use navlock_platform::{
    descriptor::Counted,
    file::{create_private_directory, write_all_at},
    file_lock,
};
use navlock_wire::ClientKey;

use crate::{
    Place,
    lock_file::{self, Identity},
};

/// How long the daemon may look at a file that is being made.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long between two tries at what the system refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// The directory of these files.
#[derive(Clone, Debug)]
pub(crate) struct ClientFiles {
    directory: PathBuf,
}

/// A client's own file. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Registration {
    path: PathBuf,
    locked: File,
}

/// Room for the locks that others will inherit of a client. Nobody holds anything by it yet. Dropping it gives
/// the room back.
#[derive(Debug)]
pub(crate) struct Reserved {
    files: ClientFiles,
    client: ClientKey,
    /// `None` once it is theirs.
    file: Option<File>,
}

/// A file of inherited locks, open to be written. It has no part in the lock on the file, which says that somebody
/// who has inherited the locks lives. It is of use also when somebody has removed the file, as a daemon may have
/// it open.
#[derive(Debug)]
pub(crate) struct InheritedFile {
    file: File,
    path: PathBuf,
}

/// What was found of the clients of an earlier daemon.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those who live, and will come back.
    pub(crate) living: Vec<ClientKey>,
    /// Those from whom somebody who lives has inherited locks.
    pub(crate) inherited_from: Vec<ClientKey>,
    /// Their files, as far as there are descriptors for them: somebody may remove them before they are
    /// read.
    pub(crate) inherited_files: HashMap<ClientKey, Counted<File>>,
    /// Those who are neither, and whose leases are known.
    pub(crate) dead: Vec<Dead>,
    /// Daemons that have noted leases of their own.
    pub(crate) brokers: Vec<ClientKey>,
}

/// A client that has ended and may have left leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) client: ClientKey,
    /// Its own file was there, and not locked. Of one whose file is gone, it may be that somebody has
    /// removed that while it lives.
    pub(crate) is_certain: bool,
}

/// What a daemon notes of itself. Dropping it says that the daemon is dead.
#[derive(Debug)]
pub(crate) struct OwnNotes {
    path: PathBuf,
    locked: File,
}

/// A file of inherited locks.
#[derive(Debug)]
pub(crate) struct Inherited {
    file: File,
    path: PathBuf,
}

/// What is to be known of a file's lock.
enum Looked {
    /// Somebody has it.
    Locked(File),
    /// Nobody has it. The file is gone, or was just removed.
    Free,
    /// It cannot be told for the moment, for want of descriptors perhaps.
    Unknown(io::Error),
}

impl ClientFiles {
    pub(crate) fn of(place: &Place) -> Self {
        Self { directory: place.clients() }
    }

    /// Makes it known that this client lives.
    pub(crate) fn register(&self, client: ClientKey) -> io::Result<Registration> {
        self.make_directory()?;
        let path = self.path(client);
        let locked = lock_at(&path)?;
        Ok(Registration { path, locked })
    }

    /// Takes room, of so many bytes, for the locks that others will inherit of this client. One at a time.
    ///
    /// # Errors
    ///
    /// If there is no such room.
    pub(crate) fn reserve(&self, client: ClientKey, room: usize) -> io::Result<Reserved> {
        self.make_directory()?;
        // It gets its name last: whoever finds it finds it locked and whole.
        let file = lock_at(&self.unborn_path(client))?;
        let reserved = Reserved { files: self.clone(), client, file: Some(file) };
        // Written, because a file that is merely long has no room for what it is to hold.
        io::copy(&mut io::repeat(0).take(room as u64), &mut reserved.file()?)?;
        Ok(reserved)
    }

    /// The file of what was inherited of a client, if it is this one, to be written anew.
    pub(crate) fn written(&self, client: ClientKey, file: Identity) -> Option<InheritedFile> {
        let path = self.inherited_path(client);
        let opened = lock_file::open_to_write(&path).ok()?;
        let is_it = lock_file::identity_of(&opened) == Some(file);
        is_it.then_some(InheritedFile { file: opened, path })
    }

    /// A client's own file, to be mapped.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be opened for the moment.
    pub(crate) fn open_own(&self, client: ClientKey) -> io::Result<File> {
        lock_file::open_to_share(&self.path(client))
    }

    /// The file of what was inherited of a client, for [`inherited_by`](Self::inherited_by).
    pub(crate) fn open_inherited(&self, client: ClientKey) -> Option<File> {
        lock_file::open_existing(&self.inherited_path(client)).ok()
    }

    /// The same file, which the process of this number has open; it need not stand any more.
    pub(crate) fn open_inherited_of(&self, client: ClientKey, pid: u32) -> Option<File> {
        lock_file::open_of(pid, self.inherited_path(client).file_name()?)
    }

    /// The same as [`inherited`](Self::inherited), by a file that was opened while it stood: somebody
    /// may have removed it.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn inherited_by(
        &self,
        client: ClientKey,
        file: &File,
    ) -> io::Result<Option<Inherited>> {
        // Those who have inherited an empty one hold nothing any more.
        if !is_locked(file)? || file.metadata()?.len() == 0 {
            return Ok(None);
        }
        Ok(Some(Inherited { file: file.try_clone()?, path: self.inherited_path(client) }))
    }

    /// The locks of a client that have been inherited by somebody who lives.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn inherited(&self, client: ClientKey) -> io::Result<Option<Inherited>> {
        locked_at(self.inherited_path(client))
    }

    /// The client's own file, for as long as the client lives: to wait for its end.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn own(&self, client: ClientKey) -> io::Result<Option<Inherited>> {
        locked_at(self.path(client))
    }

    /// Whether the client's own file is there, be it locked or not.
    pub(crate) fn has_own(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.path(client)).is_some()
    }

    /// Whether the client lives, or may live. Its file is removed if it does not.
    pub(crate) fn lives(&self, client: ClientKey) -> bool {
        !matches!(look_at(&self.path(client)), Looked::Free)
    }

    /// Whether there is a client that lives, which goes on with the next daemon if there is none. Nothing is
    /// removed, and nothing is kept: for who only looks.
    pub(crate) fn has_living(&self) -> bool {
        let lives = |client: &ClientKey| {
            let file = lock_file::open_existing(&self.path(*client));
            file.is_ok_and(|file| matches!(file_lock::try_shared(&file), Ok(false)))
        };
        self.own_files().is_ok_and(|clients| clients.iter().any(lives))
    }

    /// Notes that what this client has may be granted to others from here on.
    ///
    /// # Errors
    ///
    /// If it cannot be noted.
    pub(crate) fn give_up(&self, client: ClientKey) -> io::Result<()> {
        remove_if_there(&self.path(client))
    }

    /// Notes the same of what others have inherited of this client.
    pub(crate) fn forget_inherited(&self, client: ClientKey) {
        // It could not be read. If it cannot be removed either, that is all that can be done.
        let _ = remove_if_there(&self.inherited_path(client));
    }

    /// The clients whose own files are there, be they locked or not.
    ///
    /// # Errors
    ///
    /// If it cannot be told.
    pub(crate) fn own_files(&self) -> io::Result<Vec<ClientKey>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries
            .filter_map(|entry| entry.map(|entry| client(&entry.file_name())).transpose())
            .collect()
    }

    /// All that is there, less what nobody has locked, which is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be told who is there.
    pub(crate) fn find(&self) -> io::Result<Found> {
        let mut found = Found::default();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        // Collected first: files are removed on the way.
        let names: Vec<_> =
            entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        let (mut unlocked, mut leased) = (HashSet::new(), Vec::new());
        for name in names.iter().filter_map(|name| name.to_str()) {
            let (key, extension) = name.split_once('.').unwrap_or((name, ""));
            let Some(client) = parse(key) else {
                continue;
            };
            let is_wanted = || !matches!(look_at(&self.directory.join(name)), Looked::Free);
            match extension {
                "" if is_wanted() => found.living.push(client),
                "" => _ = unlocked.insert(client),
                LEASES => leased.push(client),
                BROKER => found.brokers.push(client),
                LOCKS => match look_at(&self.directory.join(name)) {
                    Looked::Locked(file) => {
                        found.inherited_from.push(client);
                        found
                            .inherited_files
                            .extend(Counted::if_few(file).map(|file| (client, file)));
                    }
                    Looked::Unknown(_) => found.inherited_from.push(client),
                    Looked::Free => {}
                },
                // Somebody was killed while writing it; or it stays, if somebody is at it.
                UNBORN | UNBORN_LEASES => drop(is_wanted()),
                _ => {}
            }
        }
        let alive: HashSet<_> = found.living.iter().chain(&found.inherited_from).collect();
        let dead = leased.into_iter().filter(|client| !alive.contains(client));
        found.dead =
            dead.map(|client| Dead { client, is_certain: unlocked.contains(&client) }).collect();
        Ok(found)
    }

    /// Whether the client has ended, and nobody who lives has inherited anything of it.
    pub(crate) fn is_dead(&self, client: ClientKey) -> bool {
        !self.lives(client) && matches!(self.inherited(client), Ok(None))
    }

    /// Notes one more lease of a client's agents.
    ///
    /// # Errors
    ///
    /// If it cannot be noted.
    pub(crate) fn note_lease(&self, client: ClientKey, lease: &[u8]) -> io::Result<()> {
        note(&lock_file::open_to_append(&self.leases_path(client))?, lease)
    }

    /// Notes these leases in place of those that were noted.
    ///
    /// # Errors
    ///
    /// If they cannot be noted. Then the others are.
    pub(crate) fn note_leases<'a>(
        &self,
        client: ClientKey,
        leases: impl Iterator<Item = &'a Vec<u8>>,
    ) -> io::Result<()> {
        let unborn = self.path(client).with_extension(UNBORN_LEASES);
        remove_if_there(&unborn)?;
        let lines: String = leases.map(|lease| hex(lease) + "\n").collect();
        lock_file::open_to_append(&unborn)?.write_all(lines.as_bytes())?;
        fs::rename(&unborn, self.leases_path(client))
    }

    /// The leases of a client's agents, with some that have ended.
    pub(crate) fn leases(&self, client: ClientKey) -> Vec<Vec<u8>> {
        let file = lock_file::open_existing(&self.leases_path(client));
        file.map(noted).unwrap_or_default()
    }

    /// Whether leases are noted.
    pub(crate) fn has_leases(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.leases_path(client)).is_some()
    }

    /// Nothing is left to be ended.
    pub(crate) fn forget_leases(&self, client: ClientKey) {
        // Else the next daemon finds that.
        let _ = remove_if_there(&self.leases_path(client));
    }

    /// Where a daemon that goes by this key notes leases of its own.
    ///
    /// # Errors
    ///
    /// If they cannot be noted.
    pub(crate) fn begin_own_notes(&self, broker: ClientKey) -> io::Result<OwnNotes> {
        self.make_directory()?;
        let path = self.broker_path(broker);
        let locked = lock_at(&path)?;
        Ok(OwnNotes { path, locked })
    }

    /// The leases that a daemon had itself which is dead; `None` if it lives, or that cannot be told for the
    /// moment.
    pub(crate) fn left_by_broker(&self, broker: ClientKey) -> Option<Vec<Vec<u8>>> {
        let file = match lock_file::open_existing(&self.broker_path(broker)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
            file => file.ok()?,
        };
        (!is_locked(&file).ok()?).then(|| noted(file))
    }

    /// Nothing is left of that to be ended.
    pub(crate) fn forget_broker(&self, broker: ClientKey) {
        let _ = remove_if_there(&self.broker_path(broker));
    }

    fn make_directory(&self) -> io::Result<()> {
        match create_private_directory(&self.directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, client: ClientKey) -> PathBuf {
        self.directory.join(format!("{:032x}", u128::from_be_bytes(client)))
    }

    fn unborn_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(UNBORN)
    }

    fn leases_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(LEASES)
    }

    fn broker_path(&self, broker: ClientKey) -> PathBuf {
        self.path(broker).with_extension(BROKER)
    }

    fn inherited_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(LOCKS)
    }
}

/// The extension of files of inherited locks.
pub(crate) const LOCKS: &str = "locks";

/// The extension of one that is being written.
const UNBORN: &str = "new";

/// The extension of notes of leases.
const LEASES: &str = "leases";

/// The extension of such a note that is being written anew.
const UNBORN_LEASES: &str = "leases-new";

/// The extension of what a daemon notes of itself.
const BROKER: &str = "broker";

/// The leases that are noted in a file.
fn noted(mut file: File) -> Vec<Vec<u8>> {
    let mut text = String::new();
    // As far as it is text.
    let _ = file.read_to_string(&mut text);
    // A line that is not whole is no line.
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(from_hex).collect()
}

/// Notes one more. It ends what there was no room for the last time.
fn note(mut file: &File, lease: &[u8]) -> io::Result<()> {
    file.write_all(format!("\n{}\n", hex(lease)).as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `None` if it is not what [`hex`] writes of something.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_whole = !text.is_empty() && text.len() % 2 == 0 && text.is_ascii();
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_whole.then(|| (0..text.len()).step_by(2).map(byte).collect())?
}

/// The client whose own file has this name.
pub(crate) fn client(name: &OsStr) -> Option<ClientKey> {
    parse(name.to_str()?)
}

fn parse(key: &str) -> Option<ClientKey> {
    (key.len() == 32).then(|| u128::from_str_radix(key, 16).ok())?.map(u128::to_be_bytes)
}

/// Makes a file that is ours from here on, and is locked.
fn lock_at(path: &Path) -> io::Result<File> {
    Ok(lock_file::lock(path, PATIENCE)?.ok_or(ErrorKind::WouldBlock)?)
}

/// The file, if somebody has it locked.
fn locked_at(path: PathBuf) -> io::Result<Option<Inherited>> {
    match look_at(&path) {
        Looked::Locked(file) => Ok(Some(Inherited { file, path })),
        Looked::Free => Ok(None),
        Looked::Unknown(error) => Err(error),
    }
}

/// Looks who has the file locked, and removes it if nobody has.
fn look_at(path: &Path) -> Looked {
    let file = match lock_file::open_existing(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Looked::Free,
        Err(error) => return Looked::Unknown(error),
    };
    match is_locked(&file) {
        Ok(true) => Looked::Locked(file),
        Ok(false) => {
            // Under the lock, so that nobody who is just making it has it by now.
            remove(path, &file);
            Looked::Free
        }
        Err(error) => Looked::Unknown(error),
    }
}

/// Whether somebody else has it locked. If not, it is locked by us from here on.
fn is_locked(file: &File) -> io::Result<bool> {
    file_lock::try_exclusive(file).map(|is_ours| !is_ours)
}

/// Puts this into the file in place of what it had, which stays if there is no room for more.
fn rewrite(file: &File, claims: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let known = usize::try_from(before).unwrap_or(usize::MAX).min(claims.len());
    let (head, tail) = claims.split_at(known);
    // Where more room is needed comes first: to write over what is there needs none.
    if let Err(error) = write_all_at(file, tail, known as u64) {
        file.set_len(before)?;
        return Err(error);
    }
    write_all_at(file, head, 0)?;
    file.set_len(claims.len() as u64)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes this file, unless another has its name by now.
fn remove(path: &Path, file: &File) {
    if lock_file::is_at(file, path) {
        let _ = fs::remove_file(path);
    }
}

impl Registration {
    /// The file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.locked
    }

    /// Whether it is still where a daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        lock_file::is_at(&self.locked, &self.path)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        remove(&self.path, &self.locked);
        // A map of it has it open as well.
        let _ = file_lock::unlock(&self.locked);
    }
}

impl OwnNotes {
    /// Notes one more lease.
    ///
    /// # Errors
    ///
    /// If it cannot be noted.
    pub(crate) fn note(&self, lease: &[u8]) -> io::Result<()> {
        note(&self.locked, lease)
    }

    /// Whether it is still where the next daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        lock_file::is_at(&self.locked, &self.path)
    }

    /// There is nothing that anybody has to end.
    pub(crate) fn remove(self) {
        remove(&self.path, &self.locked);
    }
}

impl Reserved {
    /// Writes down what others inherit of the client from here on. The file is locked as long as a copy of the
    /// descriptor is open.
    pub(crate) fn hand_over(mut self, claims: &[u8]) -> io::Result<(File, InheritedFile)> {
        loop {
            match self.name(claims) {
                // Somebody has removed it while there was nothing in it.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self = self.files.reserve(self.client, claims.len())?;
                }
                Err(error) => return Err(error),
                Ok(written) => {
                    let file = self.file.take().ok_or(ErrorKind::NotFound)?;
                    return Ok((file, written));
                }
            }
        }
    }

    /// Writes it and gives it its name.
    fn name(&self, claims: &[u8]) -> io::Result<InheritedFile> {
        let (path, file) = (self.files.inherited_path(self.client), self.file()?);
        let unborn = self.files.unborn_path(self.client);
        let opened = lock_file::open_to_write(&unborn)?;
        if lock_file::identity_of(&opened) != lock_file::identity_of(file) {
            return Err(ErrorKind::NotFound.into());
        }
        rewrite(&opened, claims)?;
        fs::rename(&unborn, &path)?;
        Ok(InheritedFile { file: opened, path })
    }

    pub(crate) fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl InheritedFile {
    /// Writes down anew what was inherited.
    pub(crate) fn rewrite(&self, claims: &[u8]) {
        // If there is no room for more, it says what it said before.
        let _ = rewrite(&self.file, claims);
    }

    /// Nothing is inherited any more.
    pub(crate) fn revoke(&self) {
        // A daemon may have it open, and knows by this that it was not removed by others.
        let _ = self.file.set_len(0);
        remove(&self.path, &self.file);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            remove(&self.files.unborn_path(self.client), file);
        }
    }
}

impl Inherited {
    /// What is claimed by it: messages.
    pub(crate) fn claims(&mut self) -> io::Result<Vec<u8>> {
        let mut claims = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut claims)?;
        Ok(claims)
    }

    /// What tells the file from all others.
    pub(crate) fn identity(&self) -> Option<Identity> {
        lock_file::identity_of(&self.file)
    }

    /// Blocks until the last process that has inherited it has let go of it, and until whatever else is to be waited for has
    /// come.
    pub(crate) fn wait(self, and: impl FnOnce()) {
        loop {
            match file_lock::shared(&self.file) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No room for the lock, perhaps. Not to know is not to let go.
                Err(_) => thread::sleep(PAUSE),
            }
        }
        and();
        remove(&self.path, &self.file);
    }
}

#[cfg(test)]
mod tests;
