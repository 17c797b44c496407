// Timing what computes an op: on the calls of a real training step, beside the library's op; the history of versions, and the chart.

import { appendFileSync } from 'node:fs';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { chart, timesOf } from '../../src/lab/bench-kernels.ts';
import { benchOp, type OpBench } from '../../src/lab/bench-op.ts';
import { addToHistory, earlierVersions, historyFile, readHistory } from '../../src/lab/history.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import { type Calls, sizesOf, stepCalls } from '../../src/lab/step-calls.ts';
import { absentDevice } from '../../src/native/absent-device.ts';
import { Device } from '../../src/native/device.ts';
import { bytesMoved } from '../../src/ops/contract.ts';
import { contracts } from '../../src/ops/ops.generated.ts';
import { replaceOp } from '../../src/ops/replacements.ts';
import { variantNamed } from '../../src/ops/variants.ts';
import { Workplace } from '../support/cli.ts';

describe('a training step', () => {
  const device = Device.open({ kind: 'cpu', threads: 2 });
  afterAll(() => device.close());

  it('gives the calls of plain ops and of the fused ones that consist of them', async () => {
    const { calls } = await stepCalls(device);
    const counts = Object.fromEntries([...calls].map(([{ name }, list]) => [name, list.length]));
    // Two layers of four matmuls each, and the classifier's.
    expect(counts).toMatchObject({
      ...{ matmul_forward: 9, 'matmul_forward.gelu': 2, 'matmul_forward.residual': 4, gelu_forward: 2 },
      ...{ gelu_backward: 2, residual_forward: 4, classifier: 1, cross_entropy: 1, attention_forward: 2 },
      ...{ 'norm_forward.layernorm': 5, adamw: 2 },
    });
    expect((await stepCalls(device)).calls).toBe(calls);
  });

  it('is recorded again after a failure', async () => {
    const noMemory = vi.spyOn(device, 'allocate').mockImplementationOnce(() => {
      throw new Error('out of memory');
    });
    await expect(stepCalls(device, 4)).rejects.toThrow('out of memory');
    noMemory.mockRestore();
    expect((await stepCalls(device, 4)).calls.size).toBeGreaterThan(0);
  });

  it('has the batch that is asked for', async () => {
    const sizes = (calls: Calls) => sizesOf(calls.get(variantNamed('norm_forward.layernorm'))![0]!);
    expect(sizes((await stepCalls(device, 3)).calls)).toBe('N 96, C 64');
    expect(sizes((await stepCalls(device)).calls)).toBe('N 64, C 64');
  });

  it.each([
    ['matmul_forward', 5],
    ['gelu_backward', 1],
    ['norm_forward.layernorm', 1],
    ['cross_entropy', 1],
  ])('%s is timed at its %i sizes', async (op, sizes) => {
    const cases = casesNamed(op);
    let idle = 0;
    const calls = await stepCalls(device);
    const { variant } = cases;
    replaceOp(device, variant, (_, native) => device.call(variant.op.name as 'adamw', native as never));
    const { results, clocks } = await benchOp(device, cases, calls, { onIdle: () => idle++ });
    replaceOp(device, variant, undefined);
    expect(clocks).toBeNull();
    expect(results).toHaveLength(sizes);
    expect(idle).toBe(2 * sizes + 1);
    for (const { bytes, flops, bound, ours, own } of results) {
      expect(bytes).toBeGreaterThan(0);
      expect(flops > 0).toBe(op.startsWith('matmul'));
      for (const ms of [bound, ours.cold, ours.hot, own.cold, own.hot]) expect(ms).toBeGreaterThan(0);
    }
  });

  it('a slow kernel runs once for a brief answer', async () => {
    let runs = 0;
    const calls = await stepCalls(device);
    replaceOp(device, variantNamed('cross_entropy'), () => {
      const end = performance.now() + 50;
      while (performance.now() < end);
      runs++;
    });
    const { results } = await benchOp(device, casesNamed('cross_entropy'), calls, { isBrief: true });
    replaceOp(device, variantNamed('cross_entropy'), undefined);
    expect(runs).toBe(1);
    expect(results[0]!.own.cold).toBeGreaterThan(40);
    expect(results[0]!.own.hot).toBe(results[0]!.own.cold);
  });

  it('an op that it lacks is refused', async () => {
    const calls = await stepCalls(device);
    await expect(benchOp(device, casesNamed('sample'), calls)).rejects.toThrow(
      'a training step with AdamW in fp32 does not use sample, so there are no sizes to measure it at',
    );
  });
});

const result: OpBench = {
  ...{ sizes: 'N 8, C 4', calls: 12, flops: 2e9, bytes: 3e8, bound: 0.1 },
  ...{ ours: { cold: 0.125, hot: 0.1 }, own: { cold: 0.5, hot: 0.4 } },
};

it('the history has the last times of each other version, the newest first', () => {
  using place = new Workplace();
  const add = (hash: string, cold: number, device = 'H100') => {
    const results = [{ ...result, own: { cold, hot: cold } }];
    expect(addToHistory(place.folder, { hash, op: 'gelu_forward', dtype: 'bf16', device }, results)).toBeUndefined();
  };
  add('a', 3);
  add('b', 2);
  add('a', 2.5);
  add('c', 1);
  add('d', 9, 'CPU');
  appendFileSync(place.path(historyFile), '{"time":"2026');
  const version = { hash: 'c', op: 'gelu_forward', dtype: 'bf16', device: 'H100', sizes: 'N 8, C 4' };
  const history = readHistory(place.folder);
  expect(earlierVersions(history, version).map(({ hash, cold }) => [hash, cold])).toEqual([
    ['a', 2.5],
    ['b', 2],
  ]);
  expect(earlierVersions(history, { ...version, sizes: 'N 9, C 4' })).toEqual([]);
  expect(readHistory(place.path('none'))).toEqual([]);
  expect(addToHistory(place.path('none'), version, [result])).toMatch(/^the times are not kept: ENOENT/);
});

it('the chart compares cold times', () => {
  expect(chart(timesOf(result, [{ hash: 'a1b2c3d4', time: '2026-11-21T10:02:33Z', cold: 1, hot: 0.75 }]))).toEqual([
    '                        ms  ms in L2  GB/s  TFLOP/s  of bound',
    'bound               0.1000                                     ███',
    'ours                0.1250    0.1000  2400     16.0     80.0%  ████',
    'this kernel         0.5000    0.4000   600     4.00     20.0%  ███████████████',
    'a1b2c3 11-21 10:02   1.000    0.7500   300     2.00     10.0%  ██████████████████████████████',
  ]);
});

it('AdamW moves 28 bytes a parameter in bf16: it writes the weight, and does not read it', () => {
  const device = absentDevice({ kind: 'cuda', dtype: 'bf16' });
  const args = { weight: 1n, master: 2n, m: 3n, v: 4n, gradient: 5n, step: 6n, count: 1000, gradientDtype: 1 };
  expect(bytesMoved(device, contracts.adamw, args)).toBe(28 * 1000 + 4 * 64);
});

it('qk-norm and rotary move q and k, and not v', () => {
  const device = absentDevice({ kind: 'cuda', dtype: 'bf16' });
  const [B, T, C, NH] = [2, 64, 256, 2];
  const [queriesAndKeys, others] = [2 * B * T * 2 * C, 4 * (B * T * 2 * NH + T * (C / NH))];
  const noValues = { values: null, valueFactors: null, embedded: null, dvalueFactors: null, dembedded: null };
  const args = { rstd: 1n, rotations: 2n, positions: null, ...noValues, B, T, S: T, C, NH };
  expect(bytesMoved(device, contracts.qkNormRotaryForward, { ...args, qkv: 3n })).toBe(2 * queriesAndKeys + others);
  const backward = bytesMoved(device, contracts.qkNormRotaryBackward, { ...args, dqkv: 3n, qkv: 4n });
  expect(backward).toBe(3 * queriesAndKeys + others);
});
