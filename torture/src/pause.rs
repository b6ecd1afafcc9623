//! The pause after each round: nothing is disturbed, and everything must come to its end.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::{
    etcd::Etcd,
    events::now,
    judge::TIME_TO_LIVE,
    options::Reach,
    owner::OWNED,
    postgres::Postgres,
    processes,
    run::{Run, TICK},
    worker::NAMES,
};

/// How long it may take until all waiting workers have worked, on the machine that this is.
const END: Duration = Duration::from_secs(60);

/// How long it may take to get a free name: ten seconds for which a new broker waits for clients, and the
/// start of a broker.
const FREE: Duration = Duration::from_secs(15);

/// What a broker may have at rest, without clients: memory in KiB, and descriptors.
const MEMORY: u64 = 64 << 10;
const DESCRIPTORS: usize = 60;

impl Run<'_> {
    pub(crate) fn pause(&mut self) {
        self.events.say(format_args!("pause"));
        self.set_stop(true);
        for stopped in std::mem::take(&mut self.stopped) {
            self.go_on(&stopped);
        }
        self.make_room();
        if let Some(etcd) = &mut self.etcd {
            etcd.mend(&self.sandbox.logs, &self.events, &mut self.history);
        }
        if let Some(postgres) = &mut self.postgres {
            postgres.mend(&self.events, &mut self.history);
        }
        let free = match self.options.reach {
            Reach::Broker => FREE,
            Reach::Etcd | Reach::Postgres => FREE + Duration::from_secs(TIME_TO_LIVE),
        };
        let all_ended = self.until(END, "all workers end", |run| run.living().is_empty());
        self.judge();
        self.check_record(free, all_ended);
        if all_ended && self.postgres.is_some() {
            let keys = |run: &Self| run.postgres.as_ref().map(Postgres::keys).unwrap_or_default();
            if !self.until(free, "no key is left", |run| keys(run).is_empty()) {
                println!("there are {}", keys(self));
            }
        }
        if all_ended {
            for machine in 0..self.sandbox.machines.len() {
                self.check_machine(machine, free);
            }
        }
        self.history.forget();
        self.set_stop(false);
        self.events.say(format_args!("goes on"));
    }

    /// Checks that nothing is left in etcd, and that etcd's record agrees with what holders have said.
    fn check_record(&mut self, free: Duration, all_ended: bool) {
        let Some(etcd) = &mut self.etcd else { return };
        let mark = etcd.mark();
        self.until(free, "all is read that etcd has recorded", |run| {
            run.etcd.as_ref().is_none_or(|etcd| etcd.record.has_read(mark))
        });
        let Some(etcd) = &self.etcd else { return };
        for what in etcd.record.compare(&self.history) {
            self.violated(now(), &what);
        }
        if all_ended {
            let keys = |run: &Self| run.etcd.as_ref().map(Etcd::keys).unwrap_or_default();
            if !self.until(free, "no key is left", |run| keys(run).trim().is_empty()) {
                println!("there are {}", keys(self));
            }
        }
    }

    /// Waits until `is` holds, for `time` at most. If it does not hold then, something is stuck.
    fn until(&mut self, time: Duration, what: &str, is: impl Fn(&Self) -> bool) -> bool {
        let began = Instant::now();
        loop {
            self.tick();
            if is(self) {
                return true;
            }
            if began.elapsed() > time {
                break;
            }
            thread::sleep(TICK);
        }
        self.stuck += 1;
        let mut said = format!("not in {time:?}: {what}\n");
        for pid in processes::all() {
            said.extend(["  ", &processes::describe(pid), "\n"]);
        }
        for machine in 0..self.sandbox.machines.len() {
            said.extend([format!("  m{machine}:\n"), self.query(machine)]);
        }
        self.violated(now(), &said);
        false
    }

    fn check_machine(&mut self, machine: usize, free: Duration) {
        let empty = format!("m{machine} has nothing held and nothing pending");
        self.until(free, &empty, |run| run.query(machine).is_empty());
        let seconds = free.as_secs().to_string();
        for name in NAMES.iter().chain(&OWNED) {
            let mut command = self.sandbox.navlock(machine, &["run", "-w", &seconds, name, "true"]);
            let output = command.stderr(Stdio::piped()).output();
            let output = output.expect("navlock can be started");
            if !output.status.success() {
                self.stuck += 1;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let status = output.status;
                self.violated(now(), &format!("m{machine}: {name} is not free: {status}: {said}"));
            }
        }
        let clients = self.sandbox.machines[machine].beside("clients");
        let nothing = format!("m{machine} has no files of clients that are gone");
        // A broker on etcd notes its own leases in this directory.
        let are_gone = |files: Vec<OsString>| {
            let is_brokers =
                |file: &OsString| Path::new(file).extension() == Some("broker".as_ref());
            let (brokers, others): (Vec<_>, Vec<_>) = files.into_iter().partition(is_brokers);
            others.is_empty() && brokers.len() <= 1
        };
        if !self.until(free, &nothing, |_| are_gone(files_in(&clients))) {
            println!("there are {:?}", files_in(&clients));
        }
        self.until(free, &format!("m{machine} has one broker"), |run| {
            run.brokers(machine).len() == 1
        });
        for pid in self.brokers(machine) {
            let Some((memory, descriptors)) = processes::size(pid) else { continue };
            self.events.say(format_args!("broker {pid} {memory} KiB {descriptors} descriptors"));
            let (most, many) = self.broker_size;
            self.broker_size = (most.max(memory), many.max(descriptors));
            if memory > MEMORY || descriptors > DESCRIPTORS {
                let what =
                    format!("the broker at rest has {memory} KiB, {descriptors} descriptors");
                self.violated(now(), &what);
            }
        }
    }

    /// The locks that are held and the requests that wait; a line for each.
    fn query(&self, machine: usize) -> String {
        let mut command = self.sandbox.navlock(machine, &["query", "--json"]);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.expect("navlock can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }
}

fn files_in(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}
