//! What tells states apart.

use std::{
    fmt::{self, Debug, Write},
    hash::{BuildHasher, Hasher},
};

use super::{Flight, Machine, World};
use crate::keeper::model::script::Step;
use crate::keeper::{Call, Done};

impl World {
    /// The same for states from which the same can come, and which the same is to be expected of.
    ///
    /// All is in it by which what is done next can differ, and so can what is expected of that:
    /// what is left out follows from the rest, or is a name for something. Where it is in doubt
    /// whether something makes a difference it does: to look at two states of one kind takes time,
    /// to miss one misses what comes of it. One thing is left out that is expected: which tokens of
    /// what has ended were given to whom. With it there would be a state for each history, and who
    /// is given a token of before has a lock that is not there.
    pub(in crate::keeper::model) fn fingerprint(&self) -> u64 {
        let mut seen = Fingerprint(foldhash::fast::FixedState::default().build_hasher());
        let Self { etcd, machines, unkept, faults, troubled, .. } = self;
        seen.note((etcd.revision, &etcd.leases, etcd.last_lease, unkept, self.ticks(), faults));
        for kv in etcd.found.values() {
            seen.note((kv.made, kv.lease));
            seen.bytes(&kv.key);
            seen.bytes(&kv.value);
        }
        // What the checks remember.
        seen.note((&etcd.granted, &etcd.stolen, &etcd.robbed, troubled));
        seen.note(self.looked == etcd.revision);
        // Who has an answer before it watches is told of what has come since.
        let answered = machines.iter().flat_map(|machine| &machine.flights);
        let answered = answered.filter_map(|flight| match flight {
            Flight::Back(Done::Operated(_, Ok(answer))) => Some(answer.revision),
            _ => None,
        });
        if let Some(first) = answered.min() {
            seen.note(etcd.log.iter().filter(|of| of[0].revision > first).collect::<Vec<_>>());
        }
        for machine in machines {
            for watching in machine.watches.values() {
                seen.bytes(&watching.prefix);
                watching.rest(etcd).for_each(|(_, rest)| seen.note(rest));
            }
            seen.machine(machine);
        }
        seen.0.finish()
    }
}

/// Hashes what is noted.
struct Fingerprint(foldhash::fast::FoldHasher<'static>);

impl Fingerprint {
    fn note(&mut self, part: impl Debug) {
        write!(self, "{part:?}").expect("it takes all");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn machine(&mut self, machine: &Machine) {
        let Machine { acted, now, shared, keeper, agents, requests, flights, .. } = machine;
        self.note((acted, now, requests, &machine.kept, &machine.cut, &machine.revoked));
        for modelled in agents {
            self.note((modelled.reclaim.is_some(), &modelled.claimed));
        }
        for flight in flights {
            match flight {
                // Its transaction follows from that.
                Flight::Out(Call::Operate { of, .. }) => self.note(of),
                flight => self.note(flight),
            }
        }
        for (number, opened) in &keeper.buckets {
            self.note((number, &opened.bucket));
        }
        let mut agents: Vec<_> = keeper.agents.iter().collect();
        agents.sort_unstable_by_key(|(serial, _)| **serial);
        self.note(agents);
        let mut asked: Vec<_> = keeper.asked.iter().collect();
        asked.sort_unstable();
        self.note(asked);
        self.note((&keeper.reclaims, &keeper.adoptions, keeper.history.revision()));
        self.note((keeper.own, &keeper.leases, &keeper.gone, &keeper.expiring, &keeper.stray));
        self.note((&keeper.slots, shared.table().shown()));
    }
}

impl Write for Fingerprint {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0.write(part.as_bytes());
        Ok(())
    }
}

#[test]
fn who_was_killed_before_it_heard_of_its_grant_is_told_from_who_was_killed_after_that() {
    use super::super::{HOLDER, KILL, Scene, WARM};

    let scripts: &[&[_]] = &[HOLDER, &[]];
    let scene = Scene { test: None, scripts, faults: KILL, is_warm: WARM, owns: false };
    let [acts, is_granted, hears, dies] =
        [Step::Act(0), Step::Execute(0, 0), Step::Answer(0, 0), Step::Kill(0)];
    let of = |steps: &[Step]| scene.after(steps).world.fingerprint();
    let before = of(&[acts, is_granted, dies]);
    assert_ne!(before, of(&[acts, is_granted, hears, dies]));
    assert_eq!(before, of(&[acts, is_granted, dies]));
}
