// `navigator.locks`, `LockManager` and `Lock` are declared by lib.dom, or by @types/node where they
// are Node's own. They keep these types: ours are the same and can be assigned to them.
export {};
