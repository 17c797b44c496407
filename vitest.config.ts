import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/environment.ts'],
    // Two minutes of work take ten where other programs have the processors.
    testTimeout: process.env.GPT2_ROUNDS ? 0 : 600_000,
    hookTimeout: 600_000,
    pool: 'forks',
    maxWorkers: 2,
  },
});
