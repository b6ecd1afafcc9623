// Rejects a promise, and rejects another promise when the reason is shown.

Promise.reject({
  toString() {
    Promise.reject(new Error('inner'));
    return 'outer';
  },
});
