//! What a run does to etcd: it stops, kills and replaces members, fills them, and cuts machines off.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{Etcd, Member, QUOTA, READY, Undo};
use crate::{
    dice::Dice,
    events::{Events, now},
    history::{History, Interval, Trouble},
    judge::TIME_TO_LIVE,
    processes::signal,
};

/// A member may be stopped for so long and then go on, in microseconds. If a leader of etcd 3.4.30, 3.5.12 or
/// older is stopped for longer than the time to live, it then ends leases that have been renewed meanwhile
/// (etcd issue 15247). So a member that was stopped for longer is killed and does not go on.
const HARMLESS: u64 = (TIME_TO_LIVE - 2) * 1_000_000;

/// The size of the values that fill etcd: a request may have 1.5 MiB.
const PIECE: usize = 1 << 20;

/// How long a change of the members may take: a member accepts it only if it has heard of all others lately.
const CHANGING: Duration = Duration::from_secs(30);

impl Etcd {
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

    /// Has etcd compact its history up to the present.
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

    /// Fills etcd until it takes no more.
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

    /// Makes room in a full etcd, as its manual says.
    pub(super) fn make_room(&mut self, events: &Events, history: &mut History) {
        if self.full.take().is_none() {
            return;
        }
        let since = Instant::now();
        let is_done = |etcd: &Self| {
            etcd.ask(&etcd.members[0], &["del", "--prefix", "junk/"])?;
            let revision = etcd.number(0, "revision")?.to_string();
            // This fails if etcd is already compacted to there.
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
        history.over(Trouble::EtcdFull, None, 0);
    }

    /// Has a new member take the place of another one for good. The new member has nothing that the old one
    /// had.
    pub(crate) fn replace_member(
        &mut self,
        dice: &mut Dice,
        logs: &Path,
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
        history.over(Trouble::Member, None, 0);
        // The new member receives all that was ever written, also what once filled the others. Its file stays
        // as large as that, so it then says that it is full.
        self.full = Some(now());
        self.make_room(events, history);
        Some(())
    }

    /// Repeats a change of the members until etcd accepts it: a member refuses while it has not heard of all
    /// others lately.
    fn until_done(&self, nth: usize, words: &[&str]) {
        let since = Instant::now();
        while self.ask(&self.members[nth], words).is_none() {
            assert!(since.elapsed() < CHANGING, "etcd does not {words:?}");
            thread::sleep(Duration::from_millis(100));
        }
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
        // The member that was away last must have come back: two of three are needed.
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
}

/// Puts a large value behind a key. Returns whether there was room.
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
        // `etcdctl` may have ended by itself.
        let _ = input.write_all(&vec![b'x'; PIECE]);
    }
    child.wait().is_ok_and(|status| status.success())
}
