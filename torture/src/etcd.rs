//! Three members that are one etcd, and the proxies by which machines reach them.

mod disturbances;

use std::{
    fs::{self, File},
    io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use navlock_machines::keys::FORMAT;
use navlock_testkit::Port;
use rustix::{
    mount::{MountFlags, mount},
    process::Signal,
};

use crate::{
    events::{Events, now},
    history::{History, Trouble},
    judge::TIME_TO_LIVE,
    processes::signal,
    proxy::{Cables, Proxy},
    record::{MARK, Record},
    sandbox::Sandbox,
};

/// How long the members may take to elect a leader.
const READY: Duration = Duration::from_secs(300);

/// The quota of etcd in bytes: more than it needs between two compactions, and small enough to be filled
/// soon.
const QUOTA: u64 = 64 << 20;

struct Member {
    client: u16,
    peer: u16,
    /// Its name in the cluster. The member that takes its place gets another name.
    name: String,
    directory: PathBuf,
    pid: i32,
}

/// How a disturbance of a member is undone.
enum Undo {
    Start,
    GoOn,
    KillAndStart,
}

pub(crate) struct Etcd {
    members: Vec<Member>,
    /// The ports of the members, which stay reserved while a member is down.
    _ports: Vec<Port>,
    /// The member that is disturbed (at most one at any time), how to undo that, and when.
    disturbed: Option<(usize, Undo, u64)>,
    /// Of each machine: one to each member.
    pub(crate) cables: Cables,
    /// Until when etcd is full.
    full: Option<u64>,
    /// How often a member was replaced.
    replaced: u64,
    /// What etcd has recorded.
    pub(crate) record: Record,
}

impl Etcd {
    /// Starts three members, and tells the machines of them. If `may_own`, all machines but the first keep
    /// names.
    pub(crate) fn start(sandbox: &Sandbox, may_own: bool) -> io::Result<Self> {
        let free = (0..6).map(|_| Port::take()).collect::<io::Result<Vec<_>>>()?;
        let ports: Vec<_> = free.iter().map(Port::number).collect();
        // The data stand where nothing waits for a disk, and where nothing of them is left.
        let parent = sandbox.logs.join("etcd");
        fs::create_dir(&parent)?;
        mount("navlock-torture-etcd", &parent, "tmpfs", MountFlags::empty(), None)?;
        let members = ports.chunks_exact(2).enumerate().map(|(nth, ports)| Member {
            client: ports[0],
            peer: ports[1],
            name: format!("node-{nth}"),
            directory: parent.join(nth.to_string()),
            pid: 0,
        });
        let members: Vec<_> = members.collect();
        let proxy = |member: &Member| Proxy::to(member.client);
        let machines = 0..sandbox.machines.len();
        let proxies = machines.map(|_| members.iter().map(proxy).collect::<io::Result<Vec<_>>>());
        let proxies = proxies.collect::<io::Result<Vec<_>>>()?;
        for (nth, (machine, proxies)) in sandbox.machines.iter().zip(&proxies).enumerate() {
            let endpoints = proxies.iter().map(|proxy| format!("\"127.0.0.1:{}\"", proxy.port));
            let endpoints = endpoints.collect::<Vec<_>>().join(", ");
            let taken = if may_own { nth } else { 0 };
            let settings = format!(
                "[stores.main]\netcd = [{endpoints}]\ntime-to-live = {TIME_TO_LIVE}\nkeep-names = {taken}\n"
            );
            fs::write(&machine.config, settings)?;
        }
        let record =
            Record::new(members.iter().map(|member| format!("127.0.0.1:{}", member.client)));
        let (full, replaced) = (None, 0);
        let mut etcd = Self {
            members,
            _ports: free,
            disturbed: None,
            cables: Cables::new(proxies),
            full,
            replaced,
            record,
        };
        for nth in 0..etcd.members.len() {
            etcd.start_member(nth, &sandbox.logs)?;
        }
        etcd.until_whole()?;
        etcd.record.begin();
        Ok(etcd)
    }

    fn start_member(&mut self, nth: usize, logs: &Path) -> io::Result<()> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let cluster = self.members.iter();
        let cluster = cluster.map(|member| format!("{}={}", member.name, url(member.peer)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        // A member that was killed keeps its ports until its process has ended, which takes a while on a busy
        // host.
        let since = Instant::now();
        let Member { client: own, peer, .. } = self.members[nth];
        while [own, peer].iter().any(|&port| TcpListener::bind(("127.0.0.1", port)).is_err()) {
            if since.elapsed() > READY {
                return Err(io::Error::other(format!("port {own} or {peer} stays in use")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        // A member with data of its own knows its state from its data.
        let state = if self.replaced == 0 { "new" } else { "existing" };
        let member = &mut self.members[nth];
        let (client, peer) = (url(member.client), url(member.peer));
        let log =
            File::options().create(true).append(true).open(logs.join(format!("etcd.{nth}")))?;
        let child = Command::new("etcd")
            .args(["--log-level=error", "--auto-compaction-retention=1m"])
            .args([&format!("--quota-backend-bytes={QUOTA}"), "--data-dir"])
            .arg(&member.directory)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args([&format!("--name={}", member.name), &format!("--initial-cluster={cluster}")])
            .arg(format!("--initial-cluster-state={state}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        member.pid = i32::try_from(child.id()).expect("a process has a small number");
        Ok(())
    }

    /// Waits until each member knows of a leader.
    fn until_whole(&self) -> io::Result<()> {
        let since = Instant::now();
        for member in &self.members {
            while TcpStream::connect(("127.0.0.1", member.client)).is_err()
                || self.ask(member, &["endpoint", "health"]).is_none()
            {
                if since.elapsed() > READY {
                    return Err(io::Error::other("the members of etcd do not find together"));
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// What `etcdctl` says of this member; `None` if it fails.
    #[expect(clippy::unused_self, reason = "it is asked of one of these members")]
    fn ask(&self, member: &Member, words: &[&str]) -> Option<String> {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args([
                format!("--endpoints=127.0.0.1:{}", member.client),
                "--command-timeout=5s".into(),
            ])
            .args(words)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether this member says that it leads.
    fn leads(&self, nth: usize) -> Option<bool> {
        let status = self.ask(&self.members[nth], &["endpoint", "status", "--write-out=json"])?;
        let number = |key: &str| -> Option<String> {
            let (_, rest) = status.split_once(key)?;
            Some(rest.chars().take_while(char::is_ascii_digit).collect())
        };
        Some(number("\"member_id\":")? == number("\"leader\":")?)
    }

    /// Undoes the disturbances whose time is over.
    pub(crate) fn tick(&mut self, logs: &Path, events: &Events, history: &mut History) {
        let at = now();
        if self.disturbed.as_ref().is_some_and(|(_, _, until)| *until <= at) {
            self.mend_member(logs, events, history);
        }
        if self.full.is_some_and(|until| until <= at) {
            self.make_room(events, history);
        }
        self.cables.tick(at, events, history);
    }

    fn mend_member(&mut self, logs: &Path, events: &Events, history: &mut History) {
        let Some((nth, undo, _)) = self.disturbed.take() else { return };
        events.say(format_args!("member {nth} is mended"));
        match undo {
            Undo::GoOn => _ = signal(self.members[nth].pid, Signal::CONT),
            Undo::Start | Undo::KillAndStart => {
                signal(self.members[nth].pid, Signal::KILL);
                self.start_member(nth, logs).expect("etcd can be started");
            }
        }
        history.over(Trouble::Member, None, 0);
    }

    /// Undoes everything, and waits until the cluster is whole.
    pub(crate) fn mend(&mut self, logs: &Path, events: &Events, history: &mut History) {
        self.cables.tick(u64::MAX, events, history);
        self.mend_member(logs, events, history);
        self.until_whole().expect("the cluster becomes whole");
        self.make_room(events, history);
    }

    /// Whether all members answer, and nothing is being done to them.
    fn is_well(&self) -> bool {
        self.disturbed.is_none()
            && self.full.is_none()
            && (0..self.members.len()).all(|nth| self.leads(nth).is_some())
    }

    fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|nth| self.leads(*nth) == Some(true))
    }

    /// The number with this name in a member's status.
    fn number(&self, nth: usize, key: &str) -> Option<u64> {
        let status = self.ask(&self.members[nth], &["endpoint", "status", "--write-out=json"])?;
        let (_, rest) = status.split_once(&format!("\"{key}\":"))?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The keys of locks that etcd has.
    pub(crate) fn keys(&self) -> String {
        let all = format!("navlock/{FORMAT}/");
        let words = ["get", "--prefix", "--keys-only", &all];
        self.ask(&self.members[0], &words).unwrap_or_else(|| "etcd does not answer".to_owned())
    }

    /// Writes a mark. Once the record has read it, the record has read all that is there by now.
    pub(crate) fn mark(&mut self) -> u64 {
        let mark = self.record.next_mark();
        let since = Instant::now();
        let value = mark.to_string();
        while self.ask(&self.members[0], &["put", MARK, &value]).is_none() {
            assert!(since.elapsed() < READY, "etcd does not take a mark");
        }
        mark
    }
}
