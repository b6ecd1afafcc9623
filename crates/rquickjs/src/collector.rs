//! QuickJS's garbage collector.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use rquickjs::{
    class::Tracer,
    qjs::{self, JSRuntime},
};

use crate::raw::Bare;

/// Shows its values to the garbage collector.
pub(crate) trait Show {
    fn show(&self, collector: &Collector);
}

/// QuickJS's garbage collector. Every kept value must be shown to it exactly once.
pub(crate) struct Collector {
    /// The runtime and the function that QuickJS gives for the time of a call.
    pub(crate) runtime: *mut JSRuntime,
    pub(crate) mark: qjs::JS_MarkFunc,
}

impl Collector {
    pub(crate) fn see(&self, value: &Bare<'_>) {
        // SAFETY: QuickJS has given the runtime and the function for the time of this call.
        unsafe { qjs::JS_MarkValue(self.runtime, value.raw, self.mark) };
    }

    /// The tracer for values of rquickjs. Each of these also shows its context.
    pub(crate) fn tracer<'js>(&self) -> Tracer<'_, 'js> {
        // SAFETY: as for `see`, and the tracer does not outlive this call.
        unsafe { Tracer::from_ffi(self.runtime, self.mark) }
    }
}
