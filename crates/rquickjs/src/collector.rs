//! QuickJS's collector of garbage.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use rquickjs::{
    class::Tracer,
    qjs::{self, JSRuntime},
};

use crate::raw::Bare;

/// What shows its values to the collector of garbage.
pub(crate) trait Show {
    fn show(&self, collector: &Collector);
}

/// QuickJS's collector of garbage, which is to be shown each value that is kept, once.
pub(crate) struct Collector {
    /// QuickJS's own, as it gives them for the time of a call.
    pub(crate) runtime: *mut JSRuntime,
    pub(crate) mark: qjs::JS_MarkFunc,
}

impl Collector {
    pub(crate) fn see(&self, value: &Bare<'_>) {
        // SAFETY: both are those that QuickJS has given for the time of this.
        unsafe { qjs::JS_MarkValue(self.runtime, value.raw, self.mark) };
    }

    /// For values of rquickjs, which each show their context as well.
    pub(crate) fn tracer<'js>(&self) -> Tracer<'_, 'js> {
        // SAFETY: as `see`, and it does not outlive this.
        unsafe { Tracer::from_ffi(self.runtime, self.mark) }
    }
}
