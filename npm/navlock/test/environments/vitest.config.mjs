export default { test: { include: ['in-vitest.mjs'] } };
