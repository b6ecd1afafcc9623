//! Queries: what they may show, and that they take nothing.

use super::machine::name;
use super::*;
use crate::{
    keys::NameKey,
    query::{Asks, QueryResult},
    table::Status,
    tokens::Grant,
    transactions::Operation,
    values::Value,
    view::Ownership,
    watched::Put,
};
use navlock_core::{Error, Mode};

/// A query that is not answered yet.
#[derive(Debug)]
pub(super) struct Look {
    answer: oneshot::Receiver<Result<QueryResult, Error>>,
    /// The tokens of the locks that had been released when it was made, as far as the store had heard of that or
    /// had never known of them.
    released: BTreeSet<FencingToken>,
    /// The locks that were held then: their machines, their numbers in the script, and their tokens.
    held: Vec<(usize, usize, FencingToken)>,
}

impl World {
    /// The script of a machine goes on.
    pub(super) fn act(&mut self, nth: usize) {
        let machine = &mut self.machines[nth];
        match machine.script[machine.acted] {
            Act::Query => self.begin_look(nth),
            _ => machine.act(),
        }
    }

    /// A client of this machine asks what is held.
    fn begin_look(&mut self, nth: usize) {
        let entries = self.store.entries();
        let is_known = |token: &FencingToken| {
            let is_it =
                |put: &Put| Grant::marked(put.made, Value::mark(&put.value)).token == *token;
            entries.iter().any(|(key, put)| key.phase == Phase::Held && is_it(put))
        };
        // A name that is being given up may be written with what has ended meanwhile.
        let has_left = |nth: usize, of: &str| {
            let view = self.machines[nth].keeper.view(0, &NameKey::new(&name(of)));
            view.is_some_and(|view| matches!(view.own, Ownership::Leaving(_)))
        };
        let ended = self.tokens.iter().filter(|&(_, &(nth, number))| {
            let Asked { ended, name, .. } = self.machines[nth].requests[number];
            ended && !has_left(nth, name)
        });
        let ended = ended.map(|(&token, _)| FencingToken::new(token));
        let released = ended.filter(|token| !is_known(token)).collect();
        let machines = self.machines.iter().enumerate();
        let held = machines.flat_map(|(nth, machine)| {
            machine.holds().into_iter().map(move |(number, token)| (nth, number, token))
        });
        let held = held.collect();
        let (sender, answer) = oneshot::channel();
        let machine = &mut self.machines[nth];
        machine.acted += 1;
        machine.look = Some(Look { answer, released, held });
        let (bucket, name, most, asks) = (0, None, usize::MAX, Asks::Owners);
        let query = Message::Query { bucket, name, most, asks, answer: sender };
        machine.within(|keeper| keeper.handle_message(query));
    }

    /// Checks what queries were answered. Nothing is shown that was released before, and all that was held then
    /// and is still. And where the others only ask, no lock of an owner is written.
    pub(super) fn check_looks(&mut self) {
        for nth in 0..self.machines.len() {
            let Some(mut look) = self.machines[nth].look.take() else { continue };
            let Ok(seen) = look.answer.try_recv() else {
                self.machines[nth].look = Some(look);
                continue;
            };
            let seen = seen.expect("the store answers");
            let shown = seen.held.iter().map(|one| &one.inspected);
            let shown: Vec<_> = shown
                .map(|one| (one.lock.name.clone(), one.lock.mode, one.fencing_token))
                .collect();
            for (name, mode, token) in &shown {
                let token = token.expect("a lock has one");
                assert!(!look.released.contains(&token), "{name:?} was released before: {token:?}");
                let of_name = shown.iter().filter(|(other, ..)| other == name);
                let of_name: Vec<_> = of_name.collect();
                let is_shared = of_name.iter().all(|(_, mode, _)| *mode == Mode::Shared);
                assert!(of_name.len() == 1 || is_shared, "{mode:?} is not held alone: {shown:?}");
            }
            for (nth, number, token) in look.held {
                let id = self.machines[nth].requests[number].id;
                let is_held = id.is_some_and(|id| {
                    matches!(self.machines[nth].status(id).0, Status::Held(held) if held.token == token)
                });
                let is_shown = shown.iter().any(|(.., shown)| *shown == Some(token));
                assert!(!is_held || is_shown, "{token:?} is held since before: {shown:?}");
            }
        }
        let is_only_asked = |nth: usize| {
            let others = self.machines.iter().enumerate().filter(|&(other, _)| other != nth);
            let mut acts = others.flat_map(|(_, machine)| &machine.script);
            acts.all(|act| *act == Act::Query)
        };
        for (nth, machine) in self.machines.iter().enumerate() {
            for flight in &machine.flights {
                let Flight::Out(Call::Operate { of, .. }) = flight else { continue };
                if let Operation::Leave(leaving) = &of.operation {
                    let is_taken = !leaving.entries.is_empty();
                    assert!(!is_taken || !is_only_asked(nth), "a query has taken a name");
                }
            }
        }
    }
}
