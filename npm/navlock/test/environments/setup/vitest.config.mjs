export default {
  test: {
    include: ['*.vitest.mjs'],
    setupFiles: ['./as-before.cjs', 'navlock/test'],
    environmentOptions: { happyDOM: { settings: { enableIframePageLoading: true } } },
  },
};
