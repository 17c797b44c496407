import { join } from 'node:path';
import { afterEach, expect, vi } from 'vitest';
import { packageRoot } from '../../src/base/package-root.ts';
import { speakFlags } from '../../src/base/wording.ts';
import { moduleLoader } from './built.ts';

// Every test file starts with this. Programs that tests start colour their output as by default.
delete process.env.FORCE_COLOR;
// Kernels are compiled once for all tests; a test of the cache names its own.
process.env.XDG_CACHE_HOME = join(packageRoot, 'build/test-cache');
// A command that runs in a test's process starts processes of the program, not of vitest.
process.execArgv = moduleLoader;
// A small model takes four times the processor time on two threads, which wait for each other. Tests of kernels use all threads.
if (/test\/(kernels|lab|native|ops)\//.test(expect.getState().testPath!)) delete process.env.GPT2_THREADS;
else process.env.GPT2_THREADS = '1';
// Most tests are of the command line's messages.
speakFlags();
// A test's replacements end with the test; those of test/kernels are for all tests of a file.
if (!/test\/kernels\//.test(expect.getState().testPath!)) {
  afterEach(() => void vi.unstubAllEnvs().unstubAllGlobals().restoreAllMocks());
}
