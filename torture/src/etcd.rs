//! Three members that are one etcd, the cables by which machines reach them, and what befalls etcd itself.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use navlock_testkit::Port;
use rustix::{
    mount::{MountFlags, mount},
    process::Signal,
};

use crate::{
    dice::Dice,
    events::{Events, now},
    history::{History, Interval, Trouble},
    judge::TIME_TO_LIVE,
    processes::signal,
    proxy::Proxy,
    record::{MARK, Record},
    sandbox::Sandbox,
};

/// How long the members may take to find together.
const READY: Duration = Duration::from_secs(300);

/// A member may be stopped for so long and then go on, in microseconds. Longer than the time to live,
/// a leader of etcd 3.4.30 or 3.5.12 and older ends leases that have been renewed meanwhile (etcd
/// issue 15247): those are killed in place of going on.
const HARMLESS: u64 = (TIME_TO_LIVE - 2) * 1_000_000;

/// How much etcd may have, in bytes: more than it needs between two compactions, and soon full.
const QUOTA: u64 = 64 << 20;

/// With how much at a time it is filled: a request may have 1.5 MiB.
const PIECE: usize = 1 << 20;

/// How long it may take to have the members change: they want all to have been heard of.
const CHANGING: Duration = Duration::from_secs(30);

struct Member {
    client: u16,
    peer: u16,
    /// Of this one and of those whose place it has taken.
    name: String,
    directory: PathBuf,
    pid: i32,
}

/// What is to be undone, and when.
enum Undo {
    Start,
    GoOn,
    KillAndStart,
}

pub(crate) struct Etcd {
    members: Vec<Member>,
    /// Theirs, also while they are down.
    _ports: Vec<Port>,
    /// One at most is disturbed at any time.
    disturbed: Option<(usize, Undo, u64)>,
    /// The cables of each machine, one to each member.
    cables: Vec<Vec<Proxy>>,
    /// Until when a machine is cut off.
    cut: Vec<Option<u64>>,
    /// Until when it is full.
    full: Option<u64>,
    /// How often a member was replaced.
    replaced: u64,
    /// What it has recorded.
    pub(crate) record: Record,
}

impl Etcd {
    /// Starts three members, and tells the machines of them, all but the first of which keep names if they
    /// may.
    pub(crate) fn start(sandbox: &Sandbox, may_keep: bool) -> io::Result<Self> {
        let free = (0..6).map(|_| Port::take()).collect::<io::Result<Vec<_>>>()?;
        let ports: Vec<_> = free.iter().map(Port::number).collect();
        // Where nothing waits for a disk, and nothing is left.
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
        let cable = |member: &Member| Proxy::to(member.client);
        let machines = 0..sandbox.machines.len();
        let cables = machines.map(|_| members.iter().map(cable).collect::<io::Result<Vec<_>>>());
        let cables = cables.collect::<io::Result<Vec<_>>>()?;
        for (nth, (machine, cables)) in sandbox.machines.iter().zip(&cables).enumerate() {
            let endpoints = cables.iter().map(|cable| format!("\"127.0.0.1:{}\"", cable.port));
            let endpoints = endpoints.collect::<Vec<_>>().join(", ");
            let taken = if may_keep { nth } else { 0 };
            let settings = format!(
                "[etcd]\nendpoints = [{endpoints}]\ntime-to-live = {TIME_TO_LIVE}\nkeep-names = {taken}\n"
            );
            fs::write(&machine.config, settings)?;
        }
        let cut = vec![None; cables.len()];
        let record =
            Record::new(members.iter().map(|member| format!("127.0.0.1:{}", member.client)));
        let (full, replaced) = (None, 0);
        let mut etcd =
            Self { members, _ports: free, disturbed: None, cables, cut, full, replaced, record };
        for nth in 0..etcd.members.len() {
            etcd.start_member(nth, &sandbox.logs)?;
        }
        etcd.until_whole()?;
        etcd.record.begin();
        Ok(etcd)
    }

    fn start_member(&mut self, nth: usize, logs: &std::path::Path) -> io::Result<()> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let cluster = self.members.iter();
        let cluster = cluster.map(|member| format!("{}={}", member.name, url(member.peer)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        // Who was killed has its ports until it is gone, which takes a while on a machine that is busy.
        let since = Instant::now();
        let Member { client: own, peer, .. } = self.members[nth];
        while [own, peer].iter().any(|&port| TcpListener::bind(("127.0.0.1", port)).is_err()) {
            if since.elapsed() > READY {
                return Err(io::Error::other(format!("port {own} or {peer} stays in use")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        // One that has been there says so itself.
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

    /// What `etcdctl` says of this member; nothing if it complains.
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

    /// Undoes what is over.
    pub(crate) fn tick(&mut self, logs: &std::path::Path, events: &Events, history: &mut History) {
        let at = now();
        if self.disturbed.as_ref().is_some_and(|(_, _, until)| *until <= at) {
            self.mend_member(logs, events, history);
        }
        if self.full.is_some_and(|until| until <= at) {
            self.make_room(events, history);
        }
        for machine in 0..self.cut.len() {
            if self.cut[machine].is_some_and(|until| until <= at) {
                self.join(machine, events, history);
            }
        }
    }

    fn mend_member(&mut self, logs: &std::path::Path, events: &Events, history: &mut History) {
        let Some((nth, undo, _)) = self.disturbed.take() else { return };
        events.say(format_args!("member {nth} is mended"));
        match undo {
            Undo::GoOn => _ = signal(self.members[nth].pid, Signal::CONT),
            Undo::Start | Undo::KillAndStart => {
                signal(self.members[nth].pid, Signal::KILL);
                self.start_member(nth, logs).expect("etcd can be started");
            }
        }
        over(history, Trouble::Member, None);
    }

    fn join(&mut self, machine: usize, events: &Events, history: &mut History) {
        if self.cut[machine].take().is_some() {
            events.say(format_args!("m{machine} is connected"));
            self.cables[machine].iter().for_each(Proxy::mend);
            over(history, Trouble::Cut, Some(machine));
        }
    }

    /// Undoes everything, and waits until the cluster is whole.
    pub(crate) fn mend(&mut self, logs: &std::path::Path, events: &Events, history: &mut History) {
        for machine in 0..self.cut.len() {
            self.join(machine, events, history);
        }
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

    /// What a member says of itself by this name.
    fn number(&self, nth: usize, key: &str) -> Option<u64> {
        let status = self.ask(&self.members[nth], &["endpoint", "status", "--write-out=json"])?;
        let (_, rest) = status.split_once(&format!("\"{key}\":"))?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    fn any(&self, dice: &mut Dice) -> usize {
        usize::try_from(dice.below(self.members.len() as u64)).expect("there are three")
    }

    /// Has another member lead.
    pub(crate) fn change_leader(&mut self, dice: &mut Dice, events: &Events) -> Option<()> {
        let leader = self.leader().filter(|_| self.is_well())?;
        let next = (leader + 1 + usize::from(dice.chance(2))) % self.members.len();
        let id = format!("{:x}", self.number(next, "member_id")?);
        events.say(format_args!("member {next} is to lead"));
        self.ask(&self.members[leader], &["move-leader", &id]).map(drop)
    }

    /// Has etcd forget all that was before.
    pub(crate) fn compact(&mut self, dice: &mut Dice, events: &Events) -> Option<()> {
        let nth = self.any(dice);
        let revision = self.number(nth, "revision")?.to_string();
        events.say(format_args!("compaction at {revision}"));
        self.ask(&self.members[nth], &["compaction", &revision]).map(drop)
    }

    /// Has a member write its data anew, while it does nothing else.
    pub(crate) fn defragment(&mut self, dice: &mut Dice, events: &Events) -> Option<()> {
        let nth = self.any(dice);
        events.say(format_args!("member {nth} is defragmented"));
        self.ask(&self.members[nth], &["defrag"]).map(drop)
    }

    /// Fills it until it takes no more.
    pub(crate) fn fill(
        &mut self,
        during: u64,
        events: &Events,
        history: &mut History,
    ) -> Option<()> {
        if !self.is_well() {
            return None;
        }
        events.say(format_args!("etcd is filled for {during}"));
        history.troubles.push((Trouble::EtcdFull, None, Interval::begin()));
        self.full = Some(now() + during);
        for nth in 0..2 * QUOTA / PIECE as u64 {
            if !put(&self.members[0], &format!("junk/{nth}")) {
                return Some(());
            }
        }
        None
    }

    /// Undoes that, as its manual says.
    fn make_room(&mut self, events: &Events, history: &mut History) {
        if self.full.take().is_none() {
            return;
        }
        let since = Instant::now();
        let is_done = |etcd: &Self| {
            etcd.ask(&etcd.members[0], &["del", "--prefix", "junk/"])?;
            let revision = etcd.number(0, "revision")?.to_string();
            // It may be compacted to there already.
            let _ = etcd.ask(&etcd.members[0], &["compaction", &revision]);
            etcd.members.iter().try_for_each(|member| etcd.ask(member, &["defrag"]).map(drop))?;
            etcd.ask(&etcd.members[0], &["alarm", "disarm"])?;
            put(&etcd.members[0], "junk/last").then_some(())
        };
        while is_done(self).is_none() {
            assert!(since.elapsed() < READY, "etcd stays full");
            thread::sleep(Duration::from_millis(100));
        }
        events.say(format_args!("etcd has room"));
        over(history, Trouble::EtcdFull, None);
    }

    /// Has a new member take the place of one for good, which has nothing that the old one had.
    pub(crate) fn replace_member(
        &mut self,
        dice: &mut Dice,
        logs: &std::path::Path,
        events: &Events,
        history: &mut History,
    ) -> Option<()> {
        if !self.is_well() {
            return None;
        }
        let nth = self.any(dice);
        let id = format!("{:x}", self.number(nth, "member_id")?);
        let other = (nth + 1) % self.members.len();
        events.say(format_args!("member {nth} is replaced"));
        history.troubles.push((Trouble::Member, None, Interval::begin()));
        self.until_done(other, &["member", "remove", &id]);
        signal(self.members[nth].pid, Signal::KILL);
        self.replaced += 1;
        let member = &mut self.members[nth];
        fs::remove_dir_all(&member.directory).expect("nobody else writes there");
        member.name = format!("node-{nth}-{}", self.replaced);
        let url = format!("--peer-urls=http://127.0.0.1:{}", member.peer);
        let name = member.name.clone();
        self.until_done(other, &["member", "add", &name, &url]);
        history.troubles.push((Trouble::EtcdFull, None, Interval::begin()));
        self.start_member(nth, logs).expect("etcd can be started");
        self.until_whole().expect("the cluster becomes whole");
        events.say(format_args!("member {nth} is {name}"));
        over(history, Trouble::Member, None);
        // It is given all that was ever written, also what others had when they were full, and its file
        // stays as large as that: then it says that it is full itself.
        self.full = Some(now());
        self.make_room(events, history);
        Some(())
    }

    /// Has a member do what it does only when it has heard of all others lately.
    fn until_done(&self, nth: usize, words: &[&str]) {
        let since = Instant::now();
        while self.ask(&self.members[nth], words).is_none() {
            assert!(since.elapsed() < CHANGING, "etcd does not {words:?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The keys of locks that are there.
    pub(crate) fn keys(&self) -> String {
        let words = ["get", "--prefix", "--keys-only", "navlock/3/"];
        self.ask(&self.members[0], &words).unwrap_or_else(|| "etcd does not answer".to_owned())
    }

    /// Has the record read all that is there by now.
    pub(crate) fn mark(&mut self) -> u64 {
        let mark = self.record.next_mark();
        let since = Instant::now();
        let value = mark.to_string();
        while self.ask(&self.members[0], &["put", MARK, &value]).is_none() {
            assert!(since.elapsed() < READY, "etcd does not take a mark");
        }
        mark
    }

    pub(crate) fn disturb_member(
        &mut self,
        dice: &mut Dice,
        during: u64,
        events: &Events,
        history: &mut History,
    ) -> Option<()> {
        if self.disturbed.is_some() || self.full.is_some() {
            return None;
        }
        let nth = if dice.chance(2) {
            (0..3).find(|nth| self.leads(*nth) == Some(true))?
        } else {
            usize::try_from(dice.below(3)).expect("there are three")
        };
        // The last one that was away must have come back: two of three are needed.
        if (0..3).any(|other| other != nth && self.leads(other).is_none()) {
            return None;
        }
        let kills = dice.chance(2);
        let (what, undo) = match (kills, during <= HARMLESS) {
            (true, _) => (Signal::KILL, Undo::Start),
            (false, true) => (Signal::STOP, Undo::GoOn),
            (false, false) => (Signal::STOP, Undo::KillAndStart),
        };
        events.say(format_args!("member {nth} gets {what:?} for {during}"));
        signal(self.members[nth].pid, what);
        history.troubles.push((Trouble::Member, None, Interval::begin()));
        self.disturbed = Some((nth, undo, now() + during));
        Some(())
    }

    pub(crate) fn cut_off(
        &mut self,
        machine: usize,
        during: u64,
        events: &Events,
        history: &mut History,
    ) -> Option<()> {
        if self.cut[machine].is_some() {
            return None;
        }
        events.say(format_args!("m{machine} is cut off for {during}"));
        self.cables[machine].iter().for_each(Proxy::cut);
        history.troubles.push((Trouble::Cut, Some(machine), Interval::begin()));
        self.cut[machine] = Some(now() + during);
        Some(())
    }
}

/// Puts much behind a key. Whether there was room.
fn put(member: &Member, key: &str) -> bool {
    let child = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args([&format!("--endpoints=127.0.0.1:{}", member.client), "--command-timeout=5s"])
        .args(["put", key])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("etcdctl can be started");
    if let Some(mut input) = child.stdin.take() {
        // It may have ended by itself.
        let _ = input.write_all(&vec![b'x'; PIECE]);
    }
    child.wait().is_ok_and(|status| status.success())
}

/// A trouble that lasted is over.
fn over(history: &mut History, trouble: Trouble, machine: Option<usize>) {
    for (found, whose, during) in &mut history.troubles {
        if *found == trouble && *whose == machine {
            during.end();
        }
    }
}
