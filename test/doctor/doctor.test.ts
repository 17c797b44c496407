// The doctor's findings on this machine, and on machines that lack something.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Check } from '../../src/lab/doctor/check.ts';
import { checkKernels } from '../../src/lab/doctor/launch-kernels.ts';
import { checkFolder, checkNode, checkTools } from '../../src/lab/doctor/system.ts';
import { abiVersion } from '../../src/native/bindings.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();

it('finds this machine fit to train, line by line and as JSON', async () => {
  const { code, stdout, stderr } = await place.here(['doctor']);
  expect(code, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/^ok {4}node +v\d+/m);
  expect(stdout).toMatch(
    /^ok {4}kernels of cpu fp32 +embedding, norm, .*adamw.*muon.*: 18 families equal their formulas, in \d+ ms$/m,
  );
  const { ok, checks } = JSON.parse((await place.here(['doctor', '--json'])).stdout) as {
    ok: boolean;
    checks: Check[];
  };
  expect(ok).toBe(true);
  expect(checks.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['node', 'cpu library', 'train uses', 'cmake']),
  );
});

it('says how to fix a library that is missing, invalid, or lacks functions', async () => {
  writeFileSync(place.path('cpu-text.so'), 'no library');
  writeFileSync(place.path('part.c'), `int gpt2_abi_version(void) { return ${abiVersion}; }`);
  execFileSync('cc', ['-shared', '-fPIC', '-o', place.path('cpu-part.so'), place.path('part.c')]);
  for (const [library, found] of [
    ['cpu-nowhere.so', /^FAIL {2}cpu library +.*cpu-nowhere\.so does not exist\n +-> correct or unset GPT2_LIBRARY$/m],
    ['cpu-text.so', /^FAIL {2}cpu library +.*cpu-text\.so cannot be loaded: .*\n +-> correct or unset GPT2_LIBRARY$/m],
    [
      'cpu-part.so',
      /^FAIL {2}cpu library +.*cpu-part\.so lacks functions of gpt2\.ts: .*\n +-> correct or unset GPT2_LIBRARY$/m,
    ],
  ] as const) {
    const { code, stdout, stderr } = await place.here(['doctor'], { GPT2_LIBRARY: place.path(library) });
    expect(code).toBe(1);
    expect(stdout).toMatch(found);
    expect(stderr).toMatch(/^\d of \d+ checks failed: .*cpu library.*kernels$/m);
  }
});

it('says which code paths there are', async () => {
  const { code, stdout } = await place.here(['doctor'], { GPT2_KERNELS: 'abacus' });
  expect(code).toBe(1);
  expect(stdout).toMatch(
    /^FAIL {2}cpu library +.* one of .*portable.*, got abacus.*\n +-> correct or unset GPT2_KERNELS$/m,
  );
  expect(stdout).toMatch(/^FAIL {2}kernels +no library opens here\n +-> correct or unset GPT2_KERNELS$/m);
});

describe('a machine', () => {
  it.each([
    ['18.20.4', 'failed'],
    ['20.19.9', 'failed'],
    ['20.20.0', 'ok'],
    ['22.1.0', 'ok'],
    ['100.0.0', 'ok'],
  ])('with Node %s: %s', (version, state) => {
    expect(checkNode(version).state).toBe(state);
  });

  it('without tools needs them only to build', () => {
    const [path, compiler] = [process.env.PATH, process.env.CXX];
    process.env.PATH = place.path('none');
    delete process.env.CXX;
    try {
      const states = (built: boolean) =>
        checkTools({ cpuIsBuilt: built, cudaIsBuilt: built })
          .filter(({ name }) => name !== 'nvcc')
          .map(({ state }) => state);
      expect(states(false)).toEqual(['failed', 'failed']);
      expect(states(true)).toEqual(['ok', 'ok']);
    } finally {
      process.env.PATH = path;
      if (compiler !== undefined) process.env.CXX = compiler;
    }
  });

  it('whose folder is not there yet has room in the one above', () => {
    expect(checkFolder(place.path('runs', 'deep', 'in')).state).toBe('ok');
  });
});

describeBackends(
  'kernels',
  async (_, kind, dtype) => {
    it('each family launches', async () => {
      expect(await checkKernels(kind, dtype)).toMatchObject({ state: 'ok' });
    });
  },
  { dtypes: ['fp32', 'tf32', 'bf16'] },
);
