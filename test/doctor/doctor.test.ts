// The doctor's findings on this machine, and on machines that lack something.
import { describe, expect, it, vi } from 'vitest';
import type { Check } from '../../src/lab/doctor/check.ts';
import { checkKernels } from '../../src/lab/doctor/launch-kernels.ts';
import { checkFolder, checkNode, checkTools } from '../../src/lab/doctor/system.ts';
import { describeBackends } from '../support/backends.ts';
import { withCode, workplace } from '../support/cli.ts';

const place = workplace();

it('finds this machine fit to train, line by line and as JSON', async () => {
  const { stdout } = await place.okHere(['doctor']);
  expect(stdout).toMatch(/^ok {4}node +v\d+/m);
  expect(stdout).toMatch(
    /^ok {4}kernels of cpu fp32 +embedding, norm, .*adamw.*muon.*: 18 families equal their formulas, in \d+ ms$/m,
  );
  const { ok, checks } = JSON.parse((await place.here(['doctor', '--json'])).stdout) as {
    ok: boolean;
    checks: Check[];
  };
  expect(ok).toBe(true);
  const names = checks.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['node', 'cpu library', 'train uses', 'cmake']));
});

it('says how to fix a library that is missing or cannot be opened', async () => {
  for (const [variable, value, found] of [
    ['GPT2_LIBRARY', place.path('cpu-nowhere.so'), 'cpu-nowhere\\.so does not exist'],
    ['GPT2_LIBRARY', place.file('cpu-text.so', 'no library'), 'cpu-text\\.so cannot be loaded: .*'],
    ['GPT2_KERNELS', 'abacus', ' one of .*portable.*, got abacus.*'],
  ] as const) {
    const { stdout, stderr } = withCode(1, await place.here(['doctor'], { [variable]: value }));
    const fix = `\n +-> correct or unset ${variable}$`;
    expect(stdout).toMatch(new RegExp(`^FAIL {2}cpu library +.*${found}${fix}`, 'm'));
    expect(stdout).toMatch(new RegExp(`^FAIL {2}kernels +no library opens here${fix}`, 'm'));
    expect(stderr).toMatch(/^\d of \d+ checks failed: .*cpu library.*kernels$/m);
  }
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
    vi.stubEnv('PATH', place.path('none'));
    vi.stubEnv('CXX', undefined);
    const states = (built: boolean) =>
      checkTools({ cpuIsBuilt: built, cudaIsBuilt: built })
        .filter(({ name }) => name !== 'nvcc')
        .map(({ state }) => state);
    expect(states(false)).toEqual(['failed', 'failed']);
    expect(states(true)).toEqual(['ok', 'ok']);
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
