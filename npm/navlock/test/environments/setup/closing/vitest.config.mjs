export default { test: { include: ['*.vitest.mjs'], setupFiles: ['navlock/test'], environment: 'jsdom' } };
