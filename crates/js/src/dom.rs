//! The script with what engines lack of DOM and WebIDL.

/// A script with what engines lack of DOM and WebIDL: `DOMException`, `Event`, `EventTarget`,
/// `AbortController` and `AbortSignal`, with abort algorithms.
///
/// Its value is a function, `(global, host) => hooks`. The function defines those of them that `global` does
/// not have, and returns what an [`Engine`](crate::Engine) needs of signals and exceptions. The head of the
/// script says what `host` may have, and what the hooks are. Call the function before any script runs that
/// could change what the language has.
pub const DOM: &str = concat!(
    "(function (global, host) {\n'use strict';\n",
    include_str!("dom/language.js"),
    include_str!("dom/exception.js"),
    include_str!("dom/events.js"),
    include_str!("dom/abort.js"),
    include_str!("dom/hooks.js"),
    "return { ...hooks, DOMException };\n})",
);
