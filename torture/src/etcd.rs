//! Three members that are one etcd, and the cables by which machines reach them.

use std::{
    fs::{self, File},
    io,
    net::TcpStream,
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
    proxy::Proxy,
    run::signal,
    sandbox::Sandbox,
};

/// How long the members may take to find together.
const READY: Duration = Duration::from_secs(300);

/// A member may be stopped for so long and then go on, in microseconds. Longer than the time to live,
/// a leader of etcd 3.4.30 or 3.5.12 and older ends leases that have been renewed meanwhile (etcd
/// issue 15247): those are killed in place of going on.
const HARMLESS: u64 = (TIME_TO_LIVE - 2) * 1_000_000;

struct Member {
    client: u16,
    peer: u16,
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
}

impl Etcd {
    /// Starts three members, and tells the machines of them.
    pub(crate) fn start(sandbox: &Sandbox) -> io::Result<Self> {
        let free = (0..6).map(|_| Port::take()).collect::<io::Result<Vec<_>>>()?;
        let ports: Vec<_> = free.iter().map(Port::number).collect();
        // Where nothing waits for a disk, and nothing is left.
        let parent = sandbox.logs.join("etcd");
        fs::create_dir(&parent)?;
        mount("navlock-torture-etcd", &parent, "tmpfs", MountFlags::empty(), None)?;
        let members = ports.chunks_exact(2).enumerate().map(|(nth, ports)| Member {
            client: ports[0],
            peer: ports[1],
            directory: parent.join(nth.to_string()),
            pid: 0,
        });
        let members: Vec<_> = members.collect();
        let cable = |member: &Member| Proxy::to(member.client);
        let machines = 0..sandbox.machines.len();
        let cables = machines.map(|_| members.iter().map(cable).collect::<io::Result<Vec<_>>>());
        let cables = cables.collect::<io::Result<Vec<_>>>()?;
        for (machine, cables) in sandbox.machines.iter().zip(&cables) {
            let endpoints = cables.iter().map(|cable| format!("\"127.0.0.1:{}\"", cable.port));
            let endpoints = endpoints.collect::<Vec<_>>().join(", ");
            let settings =
                format!("[etcd]\nendpoints = [{endpoints}]\ntime-to-live = {TIME_TO_LIVE}\n");
            fs::write(&machine.config, settings)?;
        }
        let cut = vec![None; cables.len()];
        let mut etcd = Self { members, _ports: free, disturbed: None, cables, cut };
        for nth in 0..etcd.members.len() {
            etcd.start_member(nth, &sandbox.logs)?;
        }
        etcd.until_whole()?;
        Ok(etcd)
    }

    fn start_member(&mut self, nth: usize, logs: &std::path::Path) -> io::Result<()> {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let cluster = self.members.iter().enumerate();
        let cluster = cluster.map(|(nth, member)| format!("node-{nth}={}", url(member.peer)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let member = &mut self.members[nth];
        let (client, peer) = (url(member.client), url(member.peer));
        let log =
            File::options().create(true).append(true).open(logs.join(format!("etcd.{nth}")))?;
        let child = Command::new("etcd")
            .args(["--log-level=error", "--auto-compaction-retention=5m", "--data-dir"])
            .arg(&member.directory)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args([&format!("--name=node-{nth}"), &format!("--initial-cluster={cluster}")])
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
                // A moment in which its ports are still in use ends by itself.
                thread::sleep(Duration::from_millis(20));
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
    }

    pub(crate) fn disturb_member(
        &mut self,
        dice: &mut Dice,
        during: u64,
        events: &Events,
        history: &mut History,
    ) -> Option<()> {
        if self.disturbed.is_some() {
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

/// A trouble that lasted is over.
fn over(history: &mut History, trouble: Trouble, machine: Option<usize>) {
    for (found, whose, during) in &mut history.troubles {
        if *found == trouble && *whose == machine {
            during.end();
        }
    }
}
