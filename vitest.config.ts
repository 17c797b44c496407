import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // Kernel cards import the package by its name.
  resolve: { alias: { 'gpt2.ts': fileURLToPath(new URL('src/index.ts', import.meta.url)) } },
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
