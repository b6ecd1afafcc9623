//! The scripts of this crate.

use rquickjs::{
    Constructor, Ctx, Function, Object, Result,
    class::{Trace, Tracer},
    context::EvalOptions,
};

macro_rules! functions {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ident = $key:literal,)* }) => {
        $(#[$doc])*
        pub(crate) struct $name<'js> {
            $(pub(crate) $field: $type<'js>,)*
        }

        impl<'js> $name<'js> {
            pub(crate) fn from_object(object: &Object<'js>) -> Result<Self> {
                Ok(Self { $($field: object.get($key)?,)* })
            }
        }

        impl<'js> Trace<'js> for $name<'js> {
            fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
                $(self.$field.trace(tracer);)*
            }
        }
    };
}

functions! {
    /// What the script `tools.js` returns.
    Tools {
        type_error: Constructor = "TypeError",
        keep: Function = "keep",
    }
}

functions! {
    /// What the script `DOM` returns.
    Hooks {
        dom_exception: Constructor = "DOMException",
        is_signal: Function = "isSignal",
        aborted: Function = "aborted",
        reason: Function = "reason",
        add: Function = "add",
        remove: Function = "remove",
    }
}

/// Runs a script whose value is a function.
pub(crate) fn evaluate<'js>(ctx: &Ctx<'js>, name: &str, source: &str) -> Result<Function<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some(name.to_owned());
    ctx.eval_with_options(source, options)
}
