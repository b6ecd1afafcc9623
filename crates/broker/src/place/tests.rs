//! Tests of `place.rs`.

#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

#[cfg(unix)]
fn directory(mode: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    directory
}

/// The place of a user whose private directory this is.
#[cfg(unix)]
fn private(directory: &Path) -> Place {
    Place { socket: directory.join("sock"), kind: Kind::Private }
}

#[test]
fn the_place_of_a_user_follows_from_the_uid_alone() {
    assert_eq!(Place::at(Place::of_user().socket()), Place::of_user());
}

#[test]
#[cfg(unix)]
fn a_place_that_is_chosen_by_another_path_to_it_is_the_same() {
    // The link leads to the place in the way that `/var/run` leads to `/run`.
    let own = Place::of_user();
    let directory = directory(0o700);
    let link = directory.path().join("link");
    symlink(own.directory().parent().unwrap(), &link).unwrap();
    let by_link = link.join(own.directory().file_name().unwrap()).join("sock");
    assert_eq!(Place::at(by_link), own);
}

#[test]
#[cfg(unix)]
fn a_private_directory_is_made_closed_to_others() {
    let parent = directory(0o700);
    let ours = parent.path().join("navlock");
    private(&ours).prepare().unwrap();
    assert_eq!(fs::metadata(&ours).unwrap().mode() & 0o7777, 0o700);
    private(&ours).prepare().unwrap();
}

#[test]
#[cfg(unix)]
fn a_private_directory_that_others_may_look_into_is_refused() {
    let open = directory(0o755);
    let refused = private(open.path()).prepare();
    assert_eq!(refused, Err(PlaceError::TooOpen(open.path().to_owned(), 0o755)));
    Place::at(open.path().join("sock")).prepare().unwrap();
}

#[test]
#[cfg(unix)]
fn a_chosen_directory_that_others_may_write_to_is_refused() {
    let open = directory(0o777);
    let refused = Place::at(open.path().join("sock")).prepare();
    assert_eq!(refused, Err(PlaceError::TooOpen(open.path().to_owned(), 0o777)));
}

#[test]
#[cfg(unix)]
fn a_link_to_a_directory_is_refused() {
    let (real, link) = (directory(0o700), directory(0o700));
    let link = link.path().join("navlock");
    symlink(real.path(), &link).unwrap();
    assert_eq!(private(&link).prepare(), Err(PlaceError::NotADirectory(link)));
}

#[test]
#[cfg(unix)]
fn a_directory_of_somebody_else_is_refused() {
    // Only root could give the directory to another user. So it stays ours, and is checked as
    // another user would check it.
    let theirs = directory(0o700);
    let us = ours();
    let refused = check_directory(theirs.path(), us + 1, Others::MayNotLook);
    assert_eq!(refused, Err(PlaceError::OtherUser(theirs.path().to_owned(), us)));
}

#[test]
#[cfg(unix)]
fn a_file_where_the_socket_should_be_is_refused_and_left_alone() {
    let directory = directory(0o700);
    let file = directory.path().join("sock");
    fs::write(&file, "precious").unwrap();
    assert_eq!(Place::at(&file).prepare(), Err(PlaceError::NotASocket(file.clone())));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
#[cfg(unix)]
fn only_what_is_in_our_own_place_is_to_be_changed() {
    let said = |path: PathBuf| PlaceError::TooOpen(path, 0o777).to_string();
    assert!(said(own_directory()).contains("; chmod it to 0700, or set NAVLOCK_SOCKET to"));
    assert!(said("/tmp".into()).contains("which lets others in; set NAVLOCK_SOCKET to"));
}

#[test]
#[cfg(unix)]
fn a_path_too_long_for_a_socket_is_refused() {
    let long = Path::new("/tmp").join("x".repeat(100));
    assert_eq!(Place::at(&long).prepare(), Err(PlaceError::TooLong(long)));
}

#[test]
#[cfg(unix)]
fn brokers_in_one_chosen_directory_have_files_of_their_own() {
    let (a, b) = (Place::at("/d/a"), Place::at("/d/b"));
    assert_eq!(a.broker_lock(), Path::new("/d/a.broker.lock"));
    assert_ne!(a.broker_lock(), b.broker_lock());
    assert_eq!(private(Path::new("/d")).broker_lock(), Path::new("/d/broker.lock"));
}
