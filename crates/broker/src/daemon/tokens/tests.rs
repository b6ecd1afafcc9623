//! Tests of `tokens.rs`.

use super::*;

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// The file beside the socket, and the one in the user's own directory.
    fn both(&self) -> [PathBuf; 2] {
        [self.directory.path().join("tokens"), self.state().join("tokens")]
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state/navlock")
    }

    fn begin(&self, now: SystemTime) -> Tokens {
        self.begin_after(now, 0)
    }

    fn begin_after(&self, now: SystemTime, last: u64) -> Tokens {
        Tokens::begin_at(now, self.directory.path().join("tokens"), Some(&self.state()), last)
    }
}

fn promised(file: &Path) -> u64 {
    lock_file::read_short(file).unwrap().trim().parse().unwrap()
}

#[test]
fn tokens_grow_from_start_to_start_without_a_file_as_well() {
    let files = Files::new();
    let mut last = 0;
    for _ in 0..10 {
        let next = files.begin(SystemTime::now()).first;
        assert!(next > last);
        last = next;
    }
    for file in files.both() {
        assert!(promised(&file) > last);
        fs::remove_file(&file).unwrap();
        fs::write(&file, "no number").unwrap();
    }
    assert!(files.begin(SystemTime::now()).first > nanoseconds(30 * YEAR));
}

#[test]
fn tokens_grow_although_the_clock_was_turned_back() {
    let files = Files::new();
    let now = SystemTime::now();
    // A daemon whose clock is a year ahead is killed. The next one begins above its tokens and ends in
    // an orderly way, and the one after that begins above its tokens too.
    let before = files.begin(now + YEAR);
    let killed = files.begin(now);
    assert!(killed.first >= before.used());
    let last = killed.used();
    killed.end();
    assert!(files.begin(now).first >= last);
}

#[test]
fn tokens_grow_although_the_place_was_emptied_and_the_clock_turned_back() {
    let files = Files::new();
    let now = SystemTime::now();
    for lost in files.both() {
        let before = files.begin(now + YEAR);
        fs::remove_file(lost).unwrap();
        assert!(files.begin(now).first >= before.used());
    }
}

#[test]
fn tokens_grow_over_what_was_taken_without_a_daemon_unless_that_cannot_be() {
    let files = Files::new();
    let now = SystemTime::now();
    let last = nanoseconds(YEAR) + files.begin(now).first;
    assert_eq!(files.begin_after(now, last).first, last + 1);
    for nonsense in [nanoseconds(130 * YEAR) + last, u64::MAX] {
        assert!(files.begin_after(now, nonsense).first < last + nanoseconds(YEAR), "{nonsense}");
    }
}

#[test]
fn the_later_promise_of_another_daemon_stands() {
    let files = Files::new();
    let now = SystemTime::now();
    // Two daemons at one place, after somebody has removed all files.
    let before = files.begin(now);
    let after = files.begin(now + YEAR);
    before.end();
    for file in files.both() {
        assert_eq!(promised(&file), after.promised);
    }
}

#[test]
fn a_token_that_no_daemon_can_have_promised_is_not_believed() {
    let files = Files::new();
    let now = SystemTime::now();
    let too_far = nanoseconds(130 * YEAR) + files.begin(now).first;
    for nonsense in [&u64::MAX.to_string(), &too_far.to_string(), "-1", "x", &"9".repeat(70), ""] {
        for file in files.both() {
            fs::write(file, nonsense).unwrap();
        }
        let tokens = files.begin(now);
        assert!(tokens.first < nanoseconds(100 * YEAR), "{nonsense}");
        assert!(
            tokens
                .complaint()
                .is_some_and(|why| why.contains(&files.both()[1].display().to_string()))
        );
        // The file has been mended, and is trusted from now on.
        assert!(files.begin(now).first > tokens.first, "{nonsense}");
        assert_eq!(files.begin(now).complaint(), None);
    }
}

#[test]
fn a_clock_beyond_all_years_leaves_room_to_grow() {
    let files = Files::new();
    let tokens = files.begin(SystemTime::UNIX_EPOCH + 600 * YEAR);
    assert_eq!(tokens.first, LARGEST);
    assert!(tokens.promised > LARGEST && tokens.promised < u64::MAX / 3 * 2);
}

#[test]
fn without_a_directory_for_state_there_is_one_file() {
    let files = Files::new();
    let beside = files.directory.path().join("tokens");
    let nowhere = Path::new("/dev/null/navlock");
    for state in [None, Some(nowhere)] {
        let first = Tokens::begin(beside.clone(), state, 0).first;
        assert!(Tokens::begin(beside.clone(), state, 0).first > first);
    }
}

#[test]
#[cfg(unix)]
fn the_files_are_ours_alone() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    drop(files.begin(SystemTime::now()));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for file in files.both() {
        assert_eq!(mode(&file), 0o600);
    }
    assert_eq!(mode(&files.state()), 0o700);
    // After a file that others could read is written again, they can no longer read it.
    for file in files.both() {
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    }
    drop(files.begin(SystemTime::now()));
    assert!(files.both().iter().all(|file| mode(file) == 0o600));
}
