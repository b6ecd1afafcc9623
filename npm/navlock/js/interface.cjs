'use strict';
// What Web IDL asks of interface objects beyond what a class has:
// <https://webidl.spec.whatwg.org/#js-interfaces>.

/** @param {string[]} members  attributes and operations, which are enumerable */
function defineInterface(constructor, members) {
  const { prototype } = constructor;
  for (const member of members) Object.defineProperty(prototype, member, { enumerable: true });
  Object.defineProperty(prototype, Symbol.toStringTag, { value: constructor.name, configurable: true });
}

module.exports = { defineInterface };
