//! Fingerprints, which tell states apart.

use std::{
    fmt::{self, Debug, Write},
    hash::{BuildHasher, Hasher},
};

use super::{Flight, Machine, World};
use crate::{
    hash::HashState,
    keeper::{
        Call, Done,
        model::{memory::Memory, script::Step},
        pending_query::Query,
    },
};

impl World {
    /// A number that is the same for two states if the same can follow from both, and the checks
    /// expect the same of both.
    ///
    /// The fingerprint contains everything on which the next steps, and the expectations, can
    /// depend. What is left out follows from the rest, or is only a name for something. In cases of
    /// doubt, a thing is included: to explore two equal states only takes time, but to miss a state
    /// misses everything that follows from it. One thing that the checks use is left out: who was
    /// given the tokens of locks that have ended. With it, there would be a state for each history.
    /// Without it nothing is missed, because whoever is given an old token has a lock that is not
    /// there.
    pub(in crate::keeper::model) fn fingerprint(&self) -> u64 {
        let mut seen = Fingerprint(HashState::default().build_hasher());
        let Self { store, machines, unkept, faults, troubled, .. } = self;
        seen.note((store.revision, &store.leases, store.last_lease, unkept, self.ticks(), faults));
        for kv in store.found.values() {
            seen.note((kv.made, kv.lease));
            seen.bytes(&kv.key);
            seen.bytes(&kv.value);
        }
        // This is what the checks remember.
        seen.note((&store.granted, &store.stolen, &store.thieves, &store.robbed, troubled));
        seen.note(self.looked == store.revision);
        // A machine that has an answer before it watches is told what has happened since.
        let answered = machines.iter().flat_map(|machine| &machine.flights);
        let answered = answered.filter_map(|flight| match flight {
            Flight::Back(Done::Operated(_, Ok(answer))) => Some(answer.revision),
            _ => None,
        });
        if let Some(first) = answered.min() {
            seen.note(store.log.iter().filter(|of| of[0].revision > first).collect::<Vec<_>>());
        }
        for machine in machines {
            for watching in machine.watches.values() {
                seen.bytes(&watching.prefix);
                watching.rest(store).for_each(|(_, rest)| seen.note(rest));
            }
            seen.machine(machine, store);
        }
        seen.0.finish()
    }
}

/// Hashes what is noted.
struct Fingerprint(<HashState as BuildHasher>::Hasher);

impl Fingerprint {
    fn note(&mut self, part: impl Debug) {
        write!(self, "{part:?}").expect("it takes all");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn machine(&mut self, machine: &Machine, store: &Memory) {
        let Machine { acted, now, shared, keeper, agents, requests, flights, .. } = machine;
        self.note((acted, now, requests, &machine.kept, &machine.cut, &machine.revoked));
        self.note((machine.is_deaf, machine.is_stalled, &machine.look));
        self.note(machine.listed == store.revision);
        for (number, query) in &keeper.queries {
            let Query { after, rounds, is_asking, since, cut, asks_owners, .. } = query;
            self.note((number, after, rounds.min(&5), is_asking, since, cut, asks_owners));
        }
        for modelled in agents {
            self.note((modelled.reclaim.is_some(), &modelled.claimed));
        }
        for flight in flights {
            match flight {
                Flight::Out(Call::List { prefix, at, .. }) if *at > 0 => {
                    self.note((flight, store.list(prefix, *at)));
                }
                // The transaction of the call follows from `of`.
                Flight::Out(Call::Operate { of, .. }) => self.note(of),
                flight => self.note(flight),
            }
        }
        for (number, opened) in &keeper.buckets {
            self.note((number, &opened.bucket));
        }
        let mut agents: Vec<_> = keeper.leases.agents.iter().collect();
        agents.sort_unstable_by_key(|(serial, _)| **serial);
        self.note(agents);
        let mut asked: Vec<_> = keeper.asked.iter().collect();
        asked.sort_unstable_by_key(|(key, _)| *key);
        self.note(asked);
        self.note((&keeper.reclaims, &keeper.adoptions, keeper.history.revision()));
        self.note((&keeper.leases, &keeper.gone, &keeper.held_under_lost));
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
fn a_kill_before_the_news_of_a_grant_differs_from_a_kill_after_it() {
    use super::super::{HOLDER, KILL, WARM, scene::Scene};

    let scripts: &[&[_]] = &[HOLDER, &[]];
    let scene = Scene { test: None, scripts, faults: KILL, is_warm: WARM, owns: false };
    let [acts, is_granted, hears, dies] =
        [Step::Act(0), Step::Execute(0, 0), Step::Answer(0, 0), Step::Kill(0)];
    let of = |steps: &[Step]| scene.after(steps).world.fingerprint();
    let before = of(&[acts, is_granted, dies]);
    assert_ne!(before, of(&[acts, is_granted, hears, dies]));
    assert_eq!(before, of(&[acts, is_granted, dies]));
}
