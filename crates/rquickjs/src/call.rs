//! A call of one of this crate's functions.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{mem::ManuallyDrop, ptr::NonNull};

use rquickjs::{
    markers::Invariant,
    qjs::{self, JSRuntime, JSValue, JSValueConst},
};

use crate::raw::Bare;

/// A call of a function. It lives only as long as the call.
pub(crate) struct Call<'js> {
    pub(crate) runtime: NonNull<JSRuntime>,
    pub(crate) function: JSValueConst,
    pub(crate) this: JSValueConst,
    pub(crate) count: usize,
    pub(crate) arguments: *mut JSValue,
    pub(crate) _lifetime: Invariant<'js>,
}

/// How many arguments functions of this crate take, at most.
const MOST: usize = 3;

impl<'js> Call<'js> {
    /// The function that is called.
    pub(crate) fn function(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.function)
    }

    pub(crate) fn this(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.this)
    }

    /// The argument at this place, or `undefined` if there are fewer.
    pub(crate) fn argument(&self, at: usize) -> ManuallyDrop<Bare<'js>> {
        self.borrow(if at < self.count {
            // SAFETY: there are so many. On some platforms they are not where Rust would have them.
            unsafe { self.arguments.add(at).read_unaligned() }
        } else {
            qjs::JS_UNDEFINED
        })
    }

    /// Those that there are, and `undefined`; and how many there are of these.
    pub(crate) fn arguments(&self) -> (ManuallyDrop<[Bare<'js>; MOST]>, usize) {
        let argument = |at| ManuallyDrop::into_inner(self.argument(at));
        (ManuallyDrop::new(std::array::from_fn(argument)), self.count.min(MOST))
    }

    fn borrow(&self, raw: JSValue) -> ManuallyDrop<Bare<'js>> {
        // SAFETY: it is counted by the caller for the time of the call, and not dropped here.
        ManuallyDrop::new(unsafe { Bare::owned(self.runtime, raw) })
    }
}
