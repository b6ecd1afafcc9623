//! Makes a history that is wrong smaller: the fewer steps, the easier to understand.

use super::{
    Failure,
    plan::{Plan, Step},
    run,
};

/// The smallest history that is found and still wrong.
pub(super) fn smaller(mut plan: Plan, mut failure: Failure) -> (Plan, Failure) {
    let mut try_it = |smaller: Plan, plan: &mut Plan| match run(&smaller) {
        Err(found) => {
            (*plan, failure) = (smaller, found);
            true
        }
        Ok(_) => false,
    };
    loop {
        let before = plan.steps.len();
        let mut length = before.div_ceil(2);
        while length > 0 {
            let mut from = 0;
            while from < plan.steps.len() {
                let mut shorter = plan.clone();
                let to = plan.steps.len().min(from + length);
                shorter.steps.drain(from..to);
                if !try_it(shorter, &mut plan) {
                    from += length;
                }
            }
            length /= 2;
        }
        simplify(&mut plan, &mut try_it);
        if plan.steps.len() == before {
            return (plan, failure);
        }
    }
}

/// Takes faults away.
fn simplify(plan: &mut Plan, try_it: &mut impl FnMut(Plan, &mut Plan) -> bool) {
    for client in 0..plan.clients.len() {
        let mut simpler = plan.clone();
        let of = &mut simpler.clients[client];
        (of.ahead, of.clock_is_known, of.room, of.in_pieces) = (0, true, 1 << 16, false);
        try_it(simpler, plan);
    }
    for at in 0..plan.steps.len() {
        let mut simpler = plan.clone();
        if let Step::Turn { meanwhile } = &mut simpler.steps[at] {
            *meanwhile = 0;
            try_it(simpler, plan);
        }
    }
    let buffer = super::super::READ_SIZE;
    try_it(Plan { interrupts: false, delegates: plan.maps, buffer, ..plan.clone() }, plan);
}
