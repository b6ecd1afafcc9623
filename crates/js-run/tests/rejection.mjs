// Rejects a promise, and when the reason is shown, another.

Promise.reject({
  toString() {
    Promise.reject(new Error('inner'));
    return 'outer';
  },
});
