//! What another user can do with the broker's files and its process, which is nothing.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::{
            fs::{MetadataExt, symlink},
            net::UnixListener,
        },
    },
    path::Path,
};

use navlock_wire::FileTask;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, FlockOperation, Mode, Timespec, Timestamps, flock, mknodat,
        utimensat,
    },
    process::{Pid, Signal, kill_process},
};

use super::{
    raw::{Raw, file, key},
    *,
};

/// All that is below this path, with the path itself.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    for entry in fs::read_dir(path).into_iter().flatten() {
        all.extend(below(&entry.unwrap().path()));
    }
    all.sort();
    all
}

/// What can be seen of a file from outside, but for the time of the last access.
fn stamp(path: &Path) -> (PathBuf, u32, u32, u32, u64, i64) {
    let found = fs::symlink_metadata(path).unwrap();
    (path.to_owned(), found.mode(), found.uid(), found.gid(), found.nlink(), found.mtime())
}

/// Tries all that could change what is at this path, or read it. Returns what has succeeded.
fn attack(path: &Path, mine: &Path) -> Vec<&'static str> {
    let beside = path.with_file_name("evil");
    let within = path.join("evil");
    let open = |options: &mut OpenOptions| options.open(path).map(drop);
    let time = Timespec { tv_sec: 1, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    let errno = io::Error::from;
    let mut tries = vec![
        ("read", open(OpenOptions::new().read(true))),
        ("write", open(OpenOptions::new().write(true))),
        ("append", open(OpenOptions::new().append(true))),
        ("truncate", open(OpenOptions::new().write(true).truncate(true))),
        ("link from", fs::hard_link(path, mine.with_extension("link"))),
        ("move away", fs::rename(path, mine.with_extension("moved"))),
        ("replace", fs::rename(mine, path)),
        ("remove", fs::remove_file(path)),
        ("remove a folder", fs::remove_dir(path)),
        ("chmod", fs::set_permissions(path, fs::Permissions::from_mode(0o777))),
        ("chown", chown(path, Some(BEA.uid), Some(BEA.gid))),
        ("set times", utimensat(CWD, path, &times, AtFlags::empty()).map_err(errno)),
        ("lock", File::open(path).and_then(|it| Ok(flock(&it, FlockOperation::LockShared)?))),
    ];
    for new in [&beside, &within] {
        tries.extend([
            ("create", File::create_new(new).map(drop)),
            ("make a folder", fs::create_dir(new)),
            ("make a socket", UnixListener::bind(new).map(drop)),
            ("link to", fs::hard_link(mine, new)),
            ("point to", symlink(mine, new)),
            ("move to", fs::rename(mine, new)),
            ("make a pipe", mknodat(CWD, new, FileType::Fifo, Mode::RWXU, 0).map_err(errno)),
        ]);
    }
    tries.into_iter().filter(|(_, tried)| tried.is_ok()).map(|(what, _)| what).collect()
}

#[test]
fn nobody_reads_writes_makes_removes_moves_links_or_locks_anything_of_the_brokers() {
    let Some(machine) = Machine::new() else { return };
    let mine = machine.sandbox.path("bea");
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("file"), "").unwrap();
    for path in [&mine, &mine.join("file")] {
        chown(path, Some(BEA.uid), Some(BEA.gid)).unwrap();
    }
    let holders = [machine.hold(ADA, &["db"]), machine.hold(BEA, &["other"])];
    let mut orphan = machine.hold(ADA, &["orphan"]);
    orphan.kill_wrapper();
    eventually("the command is on its own", || {
        machine.written(ROOT, &["clients"]).contains("orphaned")
    });
    let all = below(&machine.directory());
    assert!(all.len() > 6, "{all:?}");
    let before: Vec<_> = all.iter().map(|path| stamp(path)).collect();
    for user in [BEA, ADA, OUTSIDER] {
        for path in &all {
            let done = as_user(user, || attack(path, &mine.join("file")));
            // Members may see that there is a socket.
            let may = if *path == machine.directory() { &["read", "lock"][..] } else { &[] };
            let bad: Vec<_> = done.iter().filter(|done| !may.contains(done)).collect();
            assert!(bad.is_empty(), "{user:?} can {bad:?} {}", path.display());
        }
    }
    assert_eq!(below(&machine.directory()), all);
    assert_eq!(all.iter().map(|path| stamp(path)).collect::<Vec<_>>(), before);
    orphan.kill_command();
    holders.into_iter().for_each(Holder::release);
}

#[test]
fn what_the_broker_hands_over_can_neither_be_written_nor_opened_anew_for_that() {
    let Some(machine) = Machine::new() else { return };
    let (own, files) = file(&machine, BEA, key(BEA, 1), FileTask::Own);
    assert_eq!((own, files.len()), (Ok(()), 2));
    let paths = below(&machine.directory());
    let before: Vec<_> = paths.iter().map(|path| stamp(path)).collect();
    for mut given in files {
        as_user(BEA, || {
            assert!(given.write_all(b"x").is_err());
            assert!(given.set_len(0).is_err());
            assert!(given.set_permissions(fs::Permissions::from_mode(0o666)).is_err());
            let path = PathBuf::from(format!("/proc/self/fd/{}", given.as_raw_fd()));
            let thread = PathBuf::from(format!("/proc/thread-self/fd/{}", given.as_raw_fd()));
            for path in [path, thread] {
                let options = [OpenOptions::new().write(true).clone(), {
                    OpenOptions::new().append(true).read(true).clone()
                }];
                for options in options {
                    assert!(options.open(&path).is_err(), "opened {}", path.display());
                }
                assert!(chown(&path, Some(BEA.uid), None).is_err());
            }
        });
    }
    assert_eq!(paths.iter().map(|path| stamp(path)).collect::<Vec<_>>(), before);
}

#[test]
fn nobody_gets_a_file_of_another_users_client() {
    let Some(machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let clients = below(&machine.directory().join("clients"));
    for path in &clients {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Ok(known) = u128::from_str_radix(name, 16) else { continue };
        for task in [FileTask::Own, FileTask::Reserve, FileTask::Revoke] {
            let (outcome, files) = file(&machine, BEA, known.to_be_bytes(), task);
            assert!(outcome.is_err() && files.is_empty(), "{outcome:?}");
        }
        // Nor does anybody speak for it.
        let mut raw = Raw::connect(&machine, BEA);
        raw.say(&super::raw::greeting(known.to_be_bytes(), true)).unwrap();
        raw.until_left();
    }
    assert!(clients.len() > 1, "{clients:?}");
    assert_eq!(machine.query(ADA).len(), 1);
    holder.release();
}

#[test]
fn nobody_sends_the_broker_a_signal_or_looks_into_it() {
    let Some(machine) = Machine::new() else { return };
    let broker = machine.broker.as_ref().unwrap().id();
    let process = Pid::from_raw(broker.try_into().unwrap()).unwrap();
    for user in [ADA, OUTSIDER] {
        as_user(user, || {
            for signal in [Signal::KILL, Signal::STOP, Signal::TERM] {
                assert!(kill_process(process, signal).is_err());
            }
            for file in ["mem", "maps", "environ"] {
                let opened = File::open(format!("/proc/{broker}/{file}"));
                assert!(opened.is_err(), "{user:?} {file}");
            }
            assert!(fs::read_dir(format!("/proc/{broker}/fd")).is_err());
        });
    }
    assert_eq!(machine.code(ADA, &["run", "-n", "db", "true"]), 0);
}
