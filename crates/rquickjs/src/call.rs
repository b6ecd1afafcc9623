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

/// How many arguments the functions of this crate take at most.
const MOST: usize = 3;

impl<'js> Call<'js> {
    /// The function that is called.
    pub(crate) fn function(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.function)
    }

    pub(crate) fn this(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.this)
    }

    /// The argument at this place, or `undefined` if the call has fewer arguments.
    pub(crate) fn argument(&self, at: usize) -> ManuallyDrop<Bare<'js>> {
        self.borrow(if at < self.count {
            // SAFETY: the call has more than `at` arguments. On some platforms, they are not
            // aligned as Rust demands.
            unsafe { self.arguments.add(at).read_unaligned() }
        } else {
            qjs::JS_UNDEFINED
        })
    }

    /// The arguments of the call, filled up with `undefined`, and how many arguments the call has.
    pub(crate) fn arguments(&self) -> (ManuallyDrop<[Bare<'js>; MOST]>, usize) {
        let argument = |at| ManuallyDrop::into_inner(self.argument(at));
        (ManuallyDrop::new(std::array::from_fn(argument)), self.count.min(MOST))
    }

    fn borrow(&self, raw: JSValue) -> ManuallyDrop<Bare<'js>> {
        // SAFETY: the caller counts a reference to the value during the call, and this reference is
        // not dropped here.
        ManuallyDrop::new(unsafe { Bare::owned(self.runtime, raw) })
    }
}
