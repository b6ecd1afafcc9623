//! Tests that concern a whole process: forks, limits, full disks and signals. Each test starts a
//! process of its own. That process is this program again, and runs one of the ignored tests, a
//! *role*.

#![cfg(all(target_os = "linux", not(shuttle)))]
#![allow(unsafe_code, reason = "to fork, to map memory and to handle signals is that")]

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{self, Command, Output},
    ptr,
};

use navlock_delegation::{BrokerMap, OwnerMap, Unforked};
use nix::{
    sys::{
        signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction},
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork},
};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// The environment variable with the directory of a role. No other role uses this directory.
const DIRECTORY: &str = "NAVLOCK_TEST_DIRECTORY";

const DONE: &str = "the role is done";

fn role(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("it has a path"));
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Runs a role with a new directory.
fn run(name: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory is made");
    role(name).env(DIRECTORY, directory.path()).output().expect("it can be run")
}

fn assert_done(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(DONE), "{output:#?}");
}

/// The file of a role.
fn file(name: &str) -> File {
    let path = env::var_os(DIRECTORY).expect("a role has a directory");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    options.open(Path::new(&path).join(name)).expect("a file is made")
}

fn done() {
    println!("{DONE}");
}

#[test]
fn a_forked_process_has_no_part_in_the_map() {
    assert_done(&run("forks"));
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn forks() {
    let file = file("map");
    let owner = OwnerMap::make(&file).unwrap();
    let unforked = Unforked::new().unwrap();
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains("/map\n");
    let count = owner.slot(0).unwrap().word().grant(false).unwrap();
    assert!(is_mapped() && unforked.is_us());
    // SAFETY: the child makes the calls of a program that knows nothing of the map. This is what
    // the test is about.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let sees = [unforked.is_us(), owner.slot(0).is_some(), is_mapped()];
            let grows = owner.grow().is_ok();
            owner.set_unmapped(7);
            // The drop must not unmap other memory that is now where the map was.
            drop(owner);
            process::exit(i32::from(sees != [false; 3] || grows));
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
            assert!(unforked.is_us() && is_mapped());
            assert!(owner.slot(0).unwrap().word().holds(count));
            assert_eq!(BrokerMap::open(&file).unwrap().unwrap().unmapped(), 0);
        }
    }
    done();
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_kills_nobody() {
    assert_done(&run("is_limited"));
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn is_limited() {
    let limit = |bytes| {
        let maximum = getrlimit(Resource::Fsize).maximum;
        setrlimit(Resource::Fsize, Rlimit { current: Some(bytes), maximum }).unwrap();
    };
    let file = file("map");
    limit(16383);
    assert_eq!(OwnerMap::make(&file).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(file.metadata().unwrap().len(), 0);
    limit(32767);
    let owner = OwnerMap::make(&file).unwrap();
    assert_eq!(owner.grow().unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!((owner.slots(), BrokerMap::open(&file).unwrap().unwrap().slots().count()), (63, 63));
    done();
}

/// Runs a role with a separate disk as its directory, if the test can make such a disk.
fn run_on_disk(mount: &str, name: &str) -> Option<Output> {
    let directory = tempfile::tempdir().expect("a directory is made");
    let script = format!("mount {mount} none \"${DIRECTORY}\" && exec \"$@\"");
    let role = role(name);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(role.get_program()).args(role.get_args());
    let output = command.env(DIRECTORY, directory.path()).output().expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare") || said.contains("mount:") {
        println!("skipped: no disk of our own is to be had: {said}");
        return None;
    }
    Some(output)
}

#[test]
fn a_full_disk_is_an_error_to_the_owner_and_no_harm_to_the_broker() {
    // The disk has room for 16 pages.
    if let Some(output) = run_on_disk("-t tmpfs -o size=64k", "has_a_full_disk") {
        assert_done(&output);
    }
}

#[test]
fn where_room_cannot_be_asked_for_it_is_written() {
    if let Some(output) = run_on_disk("-t ramfs", "has_a_disk_that_gives_no_room") {
        assert_done(&output);
    }
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn has_a_disk_that_gives_no_room() {
    let file = file("map");
    let asked = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1);
    assert_eq!(asked, Err(rustix::io::Errno::OPNOTSUPP));
    let owner = OwnerMap::make(&file).unwrap();
    owner.grow().unwrap();
    let count = BrokerMap::open(&file).unwrap().unwrap().slot(126).unwrap().word().grant(false);
    assert!(owner.slot(126).unwrap().word().holds(count.unwrap()));
    done();
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn has_a_full_disk() {
    fn fill(file: &mut File) {
        let full = io::copy(&mut io::repeat(1), file).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
    let (map, mut sparse, mut rest) = (file("map"), file("sparse"), file("rest"));
    fill(&mut rest);
    assert_eq!(OwnerMap::make(&map).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(map.metadata().unwrap().len(), 0);

    rest.set_len(0).unwrap();
    let owner = OwnerMap::make(&map).unwrap();
    // The file begins with the same header. Behind it, the file has no room on the disk.
    let mut header = [0; 256];
    std::os::unix::fs::FileExt::read_exact_at(&map, &mut header, 0).unwrap();
    sparse.write_all(&header).unwrap();
    sparse.set_len(256 * 64).unwrap();
    fill(&mut rest);
    assert_eq!(owner.grow().unwrap_err().kind(), ErrorKind::StorageFull);

    // The slots that exist have their room on the disk.
    for index in 0..owner.slots() {
        let slot = owner.slot(index).unwrap();
        slot.set_since(u64::MAX);
        assert!(slot.word().grant(false).is_some());
    }
    let broker = BrokerMap::open(&sparse).unwrap().unwrap();
    assert!(!broker.is_broken());
    broker.slot(62).unwrap().set_base(1);
    assert!(broker.is_broken());
    done();
}

#[test]
fn other_bus_errors_end_the_process_as_they_did() {
    for role in ["has_another_bus_error", "is_sent_a_bus_error"] {
        let output = run(role);
        assert_eq!(output.status.signal(), Some(Signal::SIGBUS as i32), "{role}: {output:#?}");
    }
}

#[test]
fn other_bus_errors_go_to_whom_they_went() {
    let output = run("handles_bus_errors");
    assert_eq!(output.status.code(), Some(42), "{output:#?}");
    assert_done(&run("ignores_bus_errors"));
}

/// Installs the handler that maps need, and checks that it works.
fn survive_ours() {
    let file = tempfile::tempfile().expect("a file is made");
    let _owner = OwnerMap::make(&file).expect("there is room");
    let broker = BrokerMap::open(&file).expect("it can be mapped").expect("it is a map");
    file.set_len(0).expect("it can be truncated");
    assert!(broker.slot(0).is_none() && broker.is_broken());
}

/// Reads a page that its file does not have. The mapping is no map of this crate.
fn fault() {
    let file = tempfile::tempfile().expect("a file is made");
    // SAFETY: the system chooses a place where nothing is mapped.
    let page = unsafe { mmap(ptr::null_mut(), 4096, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
    // SAFETY: the page is mapped, even though the file does not have it.
    unsafe { page.expect("it can be mapped").cast::<u8>().read_volatile() };
}

fn before(handler: SigHandler) {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: the handlers in this file do only what a signal handler may do.
    unsafe { sigaction(Signal::SIGBUS, &action) }.expect("SIGBUS can be handled");
}

extern "C" fn leave(_: i32) {
    // SAFETY: `_exit` may be called anywhere.
    unsafe { nix::libc::_exit(42) }
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn has_another_bus_error() {
    survive_ours();
    fault();
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn is_sent_a_bus_error() {
    before(SigHandler::SigDfl);
    survive_ours();
    raise(Signal::SIGBUS).unwrap();
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn handles_bus_errors() {
    before(SigHandler::Handler(leave));
    survive_ours();
    fault();
}

#[test]
#[ignore = "is what a process does that another test starts"]
fn ignores_bus_errors() {
    before(SigHandler::SigIgn);
    survive_ours();
    raise(Signal::SIGBUS).unwrap();
    done();
}
