'use strict';
// What Web IDL asks of interface objects beyond what a class has:
// <https://webidl.spec.whatwg.org/#js-interfaces>.

/** @param {string[]} members  attributes and operations, which are enumerable */
function defineInterface(constructor, members) {
  const { prototype } = constructor;
  for (const member of members) Object.defineProperty(prototype, member, { enumerable: true });
  Object.defineProperty(prototype, Symbol.toStringTag, { value: constructor.name, configurable: true });
}

/**
 * Makes `console.log()` show the name and the mode of the instances of an interface, on all runtimes. Runtimes look
 * for this symbol on their own interfaces, too.
 */
function defineShown(constructor) {
  function show(depth, options, inspect) {
    try {
      const { mode, name } = this;
      return depth < 0 ? `[${constructor.name}]` : `${constructor.name} ${inspect({ name, mode }, options)}`;
    } catch {
      return this; // the prototype, which is shown like any object
    }
  }
  const property = { value: show, writable: true, configurable: true };
  Object.defineProperty(constructor.prototype, Symbol.for('nodejs.util.inspect.custom'), property);
}

module.exports = { defineInterface, defineShown };
