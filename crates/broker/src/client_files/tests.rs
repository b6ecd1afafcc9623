//! Tests of `client_files.rs`.

use std::{
    io::{Read, Seek, SeekFrom, Write},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use super::{inherited::rewrite, *};

impl Registration {
    /// Leaves the file where it is, as a process does that is killed.
    pub(crate) fn abandon(mut self) {
        self.path = PathBuf::new();
    }
}

fn files() -> (tempfile::TempDir, ClientFiles) {
    let directory = tempfile::tempdir().unwrap();
    let files = ClientFiles::of(&Place::at(directory.path().join("sock")));
    (directory, files)
}

fn hand_over(files: &ClientFiles, claims: &[u8]) -> (File, InheritedFile) {
    files.reserve([7; 16], 4).unwrap().hand_over(claims).unwrap()
}

#[test]
fn room_that_was_not_used_is_given_back() {
    let (directory, files) = files();
    let reserved = files.reserve([7; 16], 10_000).unwrap();
    let clients = || fs::read_dir(directory.path().join("sock.clients")).unwrap();
    let length = |entry: io::Result<fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
    assert_eq!(clients().map(length).collect::<Vec<_>>(), [10_000]);
    // Nobody has inherited anything yet.
    assert!(files.find().unwrap().inherited_from.is_empty());
    drop(reserved);
    assert_eq!(clients().count(), 0);
}

#[test]
fn a_rewritten_file_has_the_new_claims_whether_longer_or_shorter() {
    let file = tempfile::tempfile().unwrap();
    for claims in [&b"some"[..], b"some more", b"less", b""] {
        rewrite(&file, claims).unwrap();
        let mut written = vec![0; claims.len()];
        (&file).seek(SeekFrom::Start(0)).unwrap();
        (&file).read_exact(&mut written).unwrap();
        assert_eq!(written, claims);
        assert_eq!(file.metadata().unwrap().len(), claims.len() as u64);
    }
}

#[test]
fn a_client_is_found_while_it_lives_and_leaves_nothing() {
    let (directory, files) = files();
    let registration = files.register([7; 16]).unwrap();
    assert_eq!(files.find().unwrap().living, [[7; 16]]);
    drop(registration);
    assert!(files.find().unwrap().living.is_empty());
    assert_eq!(fs::read_dir(directory.path().join("sock.clients")).unwrap().count(), 0);
}

#[test]
fn a_later_testament_is_not_taken_back_with_an_earlier_one() {
    let (_directory, files) = files();
    let (first, written) = hand_over(&files, b"first");
    let identity = lock_file::identity_of(&first).unwrap();
    let _second = hand_over(&files, b"second");
    assert!(files.written([7; 16], identity).is_none());
    written.rewrite(b"third");
    written.revoke();
    let mut inherited = files.inherited([7; 16]).unwrap().unwrap();
    assert_eq!(inherited.claims().unwrap(), b"second");
}

#[test]
fn inherited_locks_are_known_by_their_open_file_after_its_removal() {
    let (directory, files) = files();
    let inheritor = hand_over(&files, b"claims");
    let kept = files.open_inherited([7; 16]).unwrap();
    fs::remove_dir_all(directory.path().join("sock.clients")).unwrap();
    assert!(files.inherited([7; 16]).unwrap().is_none());
    let mut inherited = files.inherited_by([7; 16], &kept).unwrap().unwrap();
    assert_eq!(inherited.claims().unwrap(), b"claims");
    drop(inheritor);
    assert!(files.inherited_by([7; 16], &kept).unwrap().is_none());
}

#[test]
fn a_revoked_inheritor_holds_nothing_although_its_file_is_still_open() {
    for is_removed in [false, true] {
        let (_directory, files) = files();
        let (_inheritors, written) = hand_over(&files, b"claims");
        let kept = files.open_inherited([7; 16]).unwrap();
        if is_removed {
            fs::remove_file(files.beside([7; 16], LOCKS)).unwrap();
        }
        written.revoke();
        assert!(files.inherited_by([7; 16], &kept).unwrap().is_none());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_was_removed_is_found_by_who_has_it_open() {
    let (_directory, files) = files();
    // A client of no other test: the other tests have files open in this process too.
    let client = [8; 16];
    let inheritor = files.reserve(client, 4).unwrap().hand_over(b"claims").unwrap();
    let found = || files.open_inherited_of(client, std::process::id());
    fs::remove_file(files.beside(client, LOCKS)).unwrap();
    let mut inherited = files.inherited_by(client, &found().unwrap()).unwrap().unwrap();
    assert_eq!(inherited.claims().unwrap(), b"claims");
    drop((inheritor, inherited));
    assert!(found().is_none());
}

#[test]
fn removing_files_all_the_time_does_not_disturb_a_hand_over() {
    let (_directory, files) = files();
    let temporary = files.beside([7; 16], TEMPORARY);
    let is_over = AtomicBool::new(false);
    let handed_over = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                let _ = fs::remove_file(&temporary);
            }
        });
        let hand_over = |_| files.reserve([7; 16], 4)?.hand_over(b"claims").map(drop);
        let handed_over: io::Result<()> = (0..1000).try_for_each(hand_over);
        is_over.store(true, SeqCst);
        handed_over
    });
    handed_over.unwrap();
}

#[test]
fn room_that_somebody_removed_is_taken_again() {
    let (directory, files) = files();
    let reserved = files.reserve([7; 16], 4).unwrap();
    fs::remove_dir_all(directory.path().join("sock.clients")).unwrap();
    let _inheritors = reserved.hand_over(b"claims").unwrap();
    let mut inherited = files.inherited([7; 16]).unwrap().unwrap();
    assert_eq!(inherited.claims().unwrap(), b"claims");
}

#[test]
fn client_files_that_nobody_has_locked_are_removed() {
    let (directory, files) = files();
    files.make_directory().unwrap();
    let clients = directory.path().join("sock.clients");
    for name in ["0".repeat(32), format!("{}.locks", "1".repeat(32)), "2".repeat(32) + ".new"] {
        File::create(clients.join(name)).unwrap();
    }
    File::create(clients.join("readme")).unwrap();
    let found = files.find().unwrap();
    assert!(found.living.is_empty() && found.inherited_from.is_empty());
    let left: Vec<_> =
        fs::read_dir(clients).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["readme"]);
}

#[test]
fn leases_are_found_of_those_who_are_dead_alone() {
    let (directory, files) = files();
    let clients = directory.path().join("sock.clients");
    let [lives, leaves, died, gone] = [1, 2, 3, 4].map(|of| [of; 16]);
    let _lives = files.register(lives).unwrap();
    let _handed_over = files.reserve(leaves, 4).unwrap().hand_over(b"some").unwrap();
    File::create(clients.join("03".repeat(16))).unwrap();
    for client in [lives, leaves, died, gone] {
        files.note_lease(client, &[7, 255]).unwrap();
    }
    let mut dead = files.find().unwrap().dead;
    dead.sort_by_key(|dead| dead.client);
    let is = |client, is_certain| Dead { client, is_certain };
    assert_eq!(dead, [is(died, true), is(gone, false)]);
    let is_dead = [lives, leaves, died, gone].map(|client| files.is_dead(client));
    assert_eq!(is_dead, [false, false, true, true]);
    assert!(files.has_leases(gone));
    files.forget_leases(gone);
    assert!(!files.has_leases(gone) && files.leases(gone).is_empty());
}

#[test]
fn notes_of_a_broker_are_told_once_the_broker_is_dead() {
    let (_directory, files) = files();
    let broker = [7; 16];
    let notes = files.begin_own_notes(broker).unwrap();
    notes.note(&[1, 2]).unwrap();
    notes.note(&[3]).unwrap();
    let found = files.find().unwrap();
    assert_eq!(found.brokers, [broker]);
    assert!(found.living.is_empty() && found.dead.is_empty());
    assert_eq!(files.left_by_broker(broker), None);
    drop(notes);
    assert_eq!(files.left_by_broker(broker), Some(vec![vec![1, 2], vec![3]]));
    files.forget_broker(broker);
    assert!(files.find().unwrap().brokers.is_empty());
    assert_eq!(files.left_by_broker(broker), Some(Vec::new()));
    // A daemon that ends in an orderly way, and leaves no clients behind, leaves no notes.
    let notes = files.begin_own_notes(broker).unwrap();
    notes.remove();
    assert!(files.find().unwrap().brokers.is_empty());
}

#[test]
fn of_noted_leases_those_count_that_are_whole() {
    let (directory, files) = files();
    files.make_directory().unwrap();
    let client = [7; 16];
    files.note_lease(client, &[1, 2]).unwrap();
    let path = directory.path().join("sock.clients").join("07".repeat(16) + ".leases");
    let tear = |part: &str| {
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(part.as_bytes()).unwrap();
    };
    // First there was no room for the whole note; then the daemon was killed while it wrote one.
    tear("\n03");
    files.note_lease(client, &[4, 5]).unwrap();
    tear("zz\n\u{e9}\n0\n0607");
    assert_eq!(files.leases(client), [vec![1, 2], vec![3], vec![4, 5]]);
    files.note_leases(client, [vec![8]].iter()).unwrap();
    files.note_lease(client, &[9]).unwrap();
    assert_eq!(files.leases(client), [[8], [9]]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn locks_are_inherited_until_the_last_copy_is_closed() {
    let (_directory, files) = files();
    let (ours, _written) = hand_over(&files, b"claims");
    let theirs = ours.try_clone().unwrap();
    drop(ours);
    assert_eq!(files.find().unwrap().inherited_from, [[7; 16]]);
    let mut inherited = files.inherited([7; 16]).unwrap().unwrap();
    assert_eq!(inherited.claims().unwrap(), b"claims");
    let waiting = std::thread::spawn(move || inherited.wait(|| {}));
    drop(theirs);
    waiting.join().unwrap();
    assert!(files.inherited([7; 16]).unwrap().is_none());
}
