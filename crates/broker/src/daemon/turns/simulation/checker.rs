//! Whether a history is linearizable: whether there is one order of all that was done, in which each operation has
//! its effect between its begin and its end, that leads to all that the clients were told.
//!
//! This is the search of Wing and Gong, with the memory of Lowe: a state that was seen before is not searched
//! again. An operation is put into the order only when something has happened that needs it.

use std::collections::{BTreeMap, HashSet};

use navlock_core::host::RequestKind;

use super::history::{Act, Event, History, Seen, is_shared};

/// After how many states the search gives up.
const MOST: usize = 20_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    /// Nothing explains the history up to and with this event.
    Not {
        event: usize,
    },
    /// The search has given up.
    Unknown,
}

/// The locks as the specification has them, after some operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Model {
    /// Which operations it has gone through.
    done: Vec<bool>,
    names: BTreeMap<usize, OfName>,
    /// What was granted and stolen so far, and what was not available.
    granted: Vec<usize>,
    stolen: Vec<usize>,
    unavailable: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct OfName {
    held: Vec<usize>,
    waiting: Vec<usize>,
    token: u64,
}

struct Search<'a> {
    history: &'a History,
    /// The tokens that were told, by request, and the requests of which was told that they are refused.
    tokens: BTreeMap<usize, u64>,
    refused: HashSet<usize>,
    /// The names that each operation is about, one bit each. A question that was not answered is about nothing.
    about: Vec<u8>,
    seen: HashSet<(usize, Model)>,
    furthest: usize,
}

pub(super) fn check(history: &History) -> Verdict {
    let granted = |event: &Event| match event {
        Event::Granted(request, token) => Some((*request, *token)),
        _ => None,
    };
    let tokens = history.events.iter().filter_map(granted).collect();
    let refused = history.events.iter().filter_map(|event| match event {
        Event::Unavailable(request) => Some(*request),
        _ => None,
    });
    let refused = refused.collect();
    let about = (0..history.operations.len()).map(|at| about(history, at)).collect();
    let mut search = Search { history, tokens, refused, about, seen: HashSet::new(), furthest: 0 };
    let model = Model { done: vec![false; history.operations.len()], ..Model::default() };
    match search.explains(0, &model) {
        Some(true) => Verdict::Linearizable,
        Some(false) => Verdict::Not { event: search.furthest },
        None => Verdict::Unknown,
    }
}

impl Search<'_> {
    /// Whether some order explains the events from this one on. `None` if the search has given up.
    fn explains(&mut self, mut event: usize, model: &Model) -> Option<bool> {
        while self.history.events.get(event).is_some_and(|event| is_met(event, model)) {
            event += 1;
        }
        self.furthest = self.furthest.max(event);
        let Some(needs) = self.history.events.get(event) else {
            return Some(self.is_end(model));
        };
        if !self.seen.insert((event, model.clone())) {
            return Some(false);
        }
        if self.seen.len() > MOST {
            return None;
        }
        for next in self.candidates(event, needs, model) {
            let mut model = model.clone();
            if self.put(next, &mut model) && self.explains(event, &model)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether the clients were told all that there was to tell.
    fn is_end(&self, model: &Model) -> bool {
        let names = model.names.values();
        names.flat_map(|of| &of.held).all(|held| self.tokens.contains_key(held))
    }

    /// The operations that may come next, and that have to do with what is needed.
    fn candidates(&self, event: usize, needs: &Event, model: &Model) -> Vec<usize> {
        let operations = &self.history.operations;
        let is_open = |&at: &usize| {
            let operation = &operations[at];
            operation.is_sent && !model.done[at] && operation.begun <= event && self.about[at] > 0
        };
        let open: Vec<_> = (0..operations.len()).filter(is_open).collect();
        let of_client = |at: usize| {
            let theirs = open.iter().copied().take_while(move |other| *other < at);
            theirs.filter(move |other| self.precedes(*other, at))
        };
        let needed = needs.operation();
        let mut names = needed.map_or(0, |needed| self.about[needed]);
        loop {
            let related = open.iter().filter(|at| self.about[**at] & names > 0);
            let more = related.flat_map(|at| of_client(*at).chain([*at]));
            let more = more.fold(names, |names, at| names | self.about[at]);
            if more == names {
                break;
            }
            names = more;
        }
        let may_be_next = |&at: &usize| {
            let is_first = is_unordered(&operations[at].act)
                || of_client(at).all(|earlier| operations[earlier].may_fail);
            is_first && self.about[at] & names > 0
        };
        let mut next: Vec<_> = open.iter().copied().filter(may_be_next).collect();
        // Mostly a question sees what came before its answer.
        let is_early = |at: usize| matches!(operations[at].act, Act::Query) && Some(at) != needed;
        next.sort_by_key(|at| is_early(*at));
        next
    }

    /// Puts this operation next into the order. Returns false if it cannot be there.
    fn put(&self, next: usize, model: &mut Model) -> bool {
        let operations = &self.history.operations;
        model.done[next] = true;
        let operation = &operations[next];
        if !is_unordered(&operation.act) {
            // Whatever has failed is over when the client goes on.
            for (at, earlier) in operations[..next].iter().enumerate() {
                model.done[at] |= earlier.may_fail && self.precedes(at, next);
            }
        }
        match operation.act {
            Act::Request { name, kind, .. } => self.request(next, name, kind, model),
            Act::Finish { request } | Act::Lose { request } => {
                model.done[request] = true;
                self.end(|other| other == request, model)
            }
            Act::EndAgent { agent } => self.end(
                |other| matches!(operations[other].act, Act::Request { agent: of, .. } if of == agent),
                model,
            ),
            Act::Die => {
                for (at, done) in model.done.iter_mut().enumerate() {
                    *done |= operations[at].client == operation.client;
                }
                self.end(|other| operations[other].client == operation.client, model)
            }
            Act::Query => self.sees(next, model),
        }
    }

    /// Whether this has its effect before that later operation. Without owned names, the order is that of the socket.
    /// With them it is that of each agent's requests, which come after what the agent has ended.
    fn precedes(&self, earlier: usize, later: usize) -> bool {
        let operations = &self.history.operations;
        let [one, other] = [earlier, later].map(|at| &operations[at]);
        let agents = || [one, other].map(|of| of.agent(operations));
        one.client == other.client
            && !is_unordered(&one.act)
            && match other.act {
                _ if !self.history.is_by_agent => true,
                Act::Query => true,
                // Nobody sees a request that has ended before it was answered.
                Act::Finish { request } => earlier == request && self.is_answered(request),
                _ => agents()[0] == agents()[1],
            }
    }

    fn is_answered(&self, request: usize) -> bool {
        self.tokens.contains_key(&request) || self.refused.contains(&request)
    }

    fn kind(&self, request: usize) -> RequestKind {
        match self.history.operations[request].act {
            Act::Request { kind, .. } => kind,
            _ => RequestKind::Steal,
        }
    }

    fn request(&self, request: usize, name: usize, kind: RequestKind, model: &mut Model) -> bool {
        let mut of = model.names.remove(&name).unwrap_or_default();
        let goes_on = match kind {
            RequestKind::Wait(_) => {
                // FAST: who waits in front is granted first.
                let in_front = of.waiting.iter().filter_map(|front| self.tokens.get(front)).max();
                let in_front = in_front.copied().unwrap_or(0).max(of.token);
                if self.tokens.get(&request).is_some_and(|token| *token < in_front) {
                    return false;
                }
                of.waiting.push(request);
                self.grant(&mut of, &mut model.granted)
            }
            RequestKind::IfAvailable(_) if self.refused.contains(&request) => {
                insert(&mut model.unavailable, request);
                !(of.waiting.is_empty() && self.fits(request, &of.held))
            }
            RequestKind::IfAvailable(_) => {
                if of.waiting.is_empty() && self.fits(request, &of.held) {
                    of.waiting.push(request);
                    self.grant(&mut of, &mut model.granted)
                } else {
                    insert(&mut model.unavailable, request);
                    !self.tokens.contains_key(&request)
                }
            }
            RequestKind::Steal => {
                for robbed in of.held.drain(..) {
                    insert(&mut model.stolen, robbed);
                }
                of.waiting.insert(0, request);
                self.grant(&mut of, &mut model.granted)
            }
        };
        model.names.insert(name, of);
        goes_on
    }

    fn end(&self, ends: impl Fn(usize) -> bool, model: &mut Model) -> bool {
        model.names.values_mut().all(|of| {
            of.held.retain(|held| !ends(*held));
            of.waiting.retain(|waiting| !ends(*waiting));
            self.grant(of, &mut model.granted)
        })
    }

    fn fits(&self, request: usize, held: &[usize]) -> bool {
        let is_shared = |request: usize| is_shared(self.kind(request));
        held.is_empty() || is_shared(request) && held.iter().all(|held| is_shared(*held))
    }

    /// Grants what can be granted. Returns false if the tokens say that this was not so.
    fn grant(&self, of: &mut OfName, granted: &mut Vec<usize>) -> bool {
        while let Some(&first) = of.waiting.first().filter(|first| self.fits(**first, &of.held)) {
            of.waiting.remove(0);
            of.held.push(first);
            insert(granted, first);
            if let Some(token) = self.tokens.get(&first) {
                if *token <= of.token {
                    return false;
                }
                of.token = *token;
            }
        }
        true
    }

    /// Whether this question was answered with what there is now, or was not answered.
    fn sees(&self, question: usize, model: &Model) -> bool {
        let answered = self.history.events.iter().find_map(|event| match event {
            Event::Answered(answered, held, pending) if *answered == question => {
                Some((held, pending))
            }
            _ => None,
        });
        let Some((held, pending)) = answered else { return true };
        let seen = |requests: &dyn Fn(&OfName) -> Vec<usize>| -> Vec<Seen> {
            let all = model.names.values().flat_map(requests);
            all.filter_map(|request| match self.history.operations[request].act {
                Act::Request { agent, name, kind } => {
                    Some(Seen { name, agent, is_shared: is_shared(kind) })
                }
                _ => None,
            })
            .collect()
        };
        // Nothing says in which order those are shown that hold a name together.
        let (mut is_held, mut held) = (seen(&|of| of.held.clone()), held.clone());
        is_held.sort();
        held.sort();
        is_held == held && seen(&|of| of.waiting.clone()) == *pending
    }
}

/// The names that an operation is about.
fn about(history: &History, at: usize) -> u8 {
    let requested = |is_meant: &dyn Fn(usize, usize, usize) -> bool| {
        let bits =
            history.operations.iter().enumerate().map(|(at, operation)| match operation.act {
                Act::Request { agent, name, .. } if is_meant(at, operation.client, agent) => {
                    1 << name
                }
                _ => 0,
            });
        bits.fold(0, |all, bit| all | bit)
    };
    let operation = &history.operations[at];
    let is_answer =
        |event: &Event| matches!(event, Event::Answered(question, ..) if *question == at);
    match operation.act {
        Act::Request { name, .. } => 1 << name,
        Act::Finish { request } | Act::Lose { request } => requested(&|at, _, _| at == request),
        // One bit that belongs to no name lets it be put into the order even if it ends nothing.
        Act::EndAgent { agent } => 0x80 | requested(&|_, _, of| of == agent),
        Act::Die => 0x80 | requested(&|_, client, _| client == operation.client),
        Act::Query if history.events.iter().any(is_answer) => 0xFF,
        Act::Query => 0,
    }
}

/// Whether this event follows from what was done.
fn is_met(event: &Event, model: &Model) -> bool {
    match event {
        Event::Complete(operation) | Event::Answered(operation, ..) => model.done[*operation],
        Event::Granted(request, _) => model.granted.contains(request),
        Event::Unavailable(request) => model.unavailable.contains(request),
        Event::Lost(request) => model.stolen.contains(request),
        Event::Forgotten => true,
    }
}

/// Whether this has no place among what its client has done.
fn is_unordered(act: &Act) -> bool {
    matches!(act, Act::Die | Act::Lose { .. })
}

fn insert(sorted: &mut Vec<usize>, value: usize) {
    if let Err(place) = sorted.binary_search(&value) {
        sorted.insert(place, value);
    }
}
