// The bench: every op of a step is there with its time, operations and bytes are what a hand count gives, steps are counted.

import { readFileSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { median, quantile } from '../../src/base/quantile.ts';
import { counted } from '../../src/commands/bench.ts';
import { bench, measureTraining } from '../../src/lab/bench/bench.ts';
import { measureGeneration } from '../../src/lab/bench/generation.ts';
import { measurePeaks } from '../../src/lab/bench/peaks.ts';
import { presetConfig } from '../../src/model/config.ts';
import { flopsPerToken } from '../../src/model/flops.ts';
import { parameterCount } from '../../src/model/parameters.ts';
import { Device } from '../../src/native/device.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { replaceOp } from '../../src/ops/replacements.ts';
import { variantNamed } from '../../src/ops/variants.ts';
import { Workplace } from '../support/cli.ts';
import { pathWithTool } from '../support/driver-tool.ts';
import { haveMemory } from '../support/memory.ts';

it('medians are true medians, quantiles values that were measured', () => {
  expect([median([5, 1, 3]), median([5, 1, 3, 8]), median([])]).toEqual([3, 4, Number.NaN]);
  const toHundred = Array.from({ length: 100 }, (_, index) => index + 1);
  expect([quantile([4, 3, 2, 1], 0.95), quantile(toHundred, 0.95)]).toEqual([4, 95]);
});

it("the device's rates are those of the library where a user's kernel computes the matmul", async () => {
  using device = Device.open({ kind: 'cpu', threads: 2 });
  let calls = 0;
  replaceOp(device, variantNamed('matmul_forward'), () => calls++);
  const { matmulFlopsPerSecond } = await measurePeaks(device);
  expect(calls).toBe(0);
  expect(matmulFlopsPerSecond).toBeGreaterThan(1e9);
});

it('operations of a token: 6 for each weight of a product, and causal attention', () => {
  // d12: 12 layers of 12 * 768^2 weights and the head's 50257 * 768; attention 6 * 12 * 1024 * 768.
  expect(flopsPerToken(presetConfig('d12')!, 1024)).toBe(6 * (84_934_656 + 38_597_376) + 56_623_104);
});

const config = { layers: 2, channels: 32, heads: 2, context: 64, vocabularySize: 100 };

it('measures every op of a tiny step', async () => {
  const random = new Random(1);
  const [batch, sequence, accumulation] = [2, 16, 3];
  let batches = 0;
  // When it was asked, as a number of batches: 7 joules each.
  const joules = () => batches * 7;
  const report = await bench({
    device: { kind: 'cpu' },
    ...{ config, batch, sequence, accumulation },
    steps: 4,
    warmup: 0,
    ops: true,
    joules,
    nextBatch: () => {
      batches++;
      return { inputs: random.integers(32, 100), targets: random.integers(32, 100) };
    },
  });
  // Two steps to warm up, one whose end starts the clock, the measured ones, and one whose ops are recorded.
  expect(batches).toBe((2 + 1 + 4 + 1) * accumulation);
  expect(report.step.tokensPerStep).toBe(96);
  expect(report.step).toMatchObject({ joules: 7 * accumulation, tokensPerJoule: 96 / (7 * accumulation) });
  expect(Number.isFinite(report.step.loss)).toBe(true);
  expect(report.step.ms.least).toBeLessThanOrEqual(report.step.ms.median);
  expect(report.ops.length).toBe(22);
  for (const { name, ms, calls, bytes } of report.ops) {
    expect(ms, name).toBeGreaterThan(0);
    expect(bytes, name).toBeGreaterThan(0);
    expect(Number.isInteger(calls), name).toBe(true);
  }
  const op = (wanted: string) => report.ops.find(({ name }) => name === wanted)!;
  expect(op('qkv forward')).toMatchObject({ calls: 6, flops: 2 * 32 * 32 * 96, bytes: 4 * (64 * 96 + 32 * 32 + 96) });
  expect(op('layernorm forward').calls).toBe(5 * 3);
  expect(op('classifier').flops).toBe(3 * 2 * 32 * 32 * 128);
  // Vectors, then matrices.
  expect(op('adamw').calls).toBe(2);
  // Gradient, weight, m and v, the last three read and written; in fp32 the weight is its own master. The vocabulary is padded.
  const perWeight = (2 * op('adamw').bytes) / report.parameters;
  expect(perWeight).toBeGreaterThan(28);
  expect(perWeight).toBeLessThan(29.5);
  expect(report.memory.plannedTotal).toBe(Object.values(report.memory.planned).reduce((sum, bytes) => sum + bytes, 0));
});

it("names a step's ops in FP8 by their weights, and knows their operations", async () => {
  const { ops } = await measureTraining({
    device: { kind: 'cpu', dtype: 'fp8' },
    ...{ config, batch: 2, sequence: 16, accumulation: 1, steps: 1, warmup: 0, ops: true },
  });
  const ofFp8 = ops.filter(({ name }) => name.startsWith('fp8') && name !== 'fp8 classifier');
  expect(Object.fromEntries(ofFp8.map(({ name, calls }) => [name, calls]))).toEqual({
    ...{ 'fp8 quantize qkv': 2, 'fp8 qkv forward': 2, 'fp8 transpose': 4 },
    ...{ 'fp8 quantize fc + transposed': 2, 'fp8 fc forward + gelu': 2 },
    ...{ 'fp8 quantize fcproj + transposed': 2, 'fp8 fcproj forward + residual': 2 },
    'fp8 quantize wte + transposed': 1,
    ...{ 'fp8 fcproj backward weight': 2, 'fp8 fcproj backward input + gelu': 2 },
    ...{ 'fp8 fc backward weight': 2, 'fp8 fc backward input': 2 },
    ...{ 'fp8 quantize attproj transposed': 2, 'fp8 attproj backward input': 2 },
  });
  const product = 2 * 32 * 32 * (4 * 32);
  for (const { name, flops, fp8Flops } of ofFp8) {
    const isProduct = !/quantize|transpose/.test(name);
    const part = name.includes('qkv') ? 3 / 4 : name.includes('attproj') ? 1 / 4 : 1;
    expect([flops, fp8Flops], name).toEqual(Array(2).fill(isProduct ? part * product : 0));
  }
});

it('measures generation: every op and choice, the token at three positions, texts of several numbers', async () => {
  const config = { layers: 2, channels: 32, heads: 2, context: 1024, vocabularySize: 100 };
  const lines: string[] = [];
  const report = await measureGeneration({ kind: 'cpu', threads: 1 }, { config, tokens: 3 }, (line) =>
    lines.push(line),
  );
  const calls = {
    ...{ 'embedding forward': 1, 'layernorm + qkv forward': 2, 'attention cached forward': 2 },
    ...{ 'attproj forward + residual': 2, 'layernorm + fc forward + gelu': 2, 'fcproj forward + residual': 2 },
    ...{ 'layernorm + wte forward': 1, 'sample, temperature 0': 1, sample: 1, 'sample, top-k': 1 },
    'sample, top-k and top-p': 1,
  };
  expect(report.ops.map(({ name, calls }) => [name, calls])).toEqual(Object.entries(calls));
  expect(report.decoding.map(({ position }) => position)).toEqual([10, 500, 1000]);
  for (const { us } of [...report.ops, ...report.decoding]) expect(us).toBeGreaterThan(0);
  expect(report.results.map(({ texts }) => texts)).toEqual([1, 1, 1, 8, 32]);
  for (const { tokensPerSecondOfText: rounds, ofBound } of report.results) {
    expect(rounds).toHaveLength(5);
    expect(ofBound * report.boundTokensPerSecond).toBeCloseTo(rounds[2]!);
  }
  // Each weight once, and the padded rows of the vocabulary.
  expect(report.weightBytes).toBe(4 * (parameterCount(config) + 28 * 32));
  expect(report.boundTokensPerSecond).toBe(report.copyBytesPerSecond / report.weightBytes);
  expect(lines).toHaveLength(11 + 3 + 5);
});

it('counts the memory of this process on a CPU, whatever other programs free meanwhile', async () => {
  let available = 2 ** 36;
  vi.spyOn(Device.prototype, 'memory').mockImplementation(() => {
    available += 2 ** 30;
    return { available, total: 2 ** 37 };
  });
  const config = { layers: 1, channels: 256, heads: 2, context: 16, vocabularySize: 50257 };
  const { memory } = await measureTraining({
    device: { kind: 'cpu' },
    ...{ config, batch: 1, sequence: 16, accumulation: 1, steps: 1, warmup: 0, ops: false },
  });
  // The process touches most of the planned arrays; JavaScript needs memory too.
  expect(memory.used / memory.plannedTotal).toBeGreaterThan(0.75);
  expect(memory.used / memory.plannedTotal).toBeLessThan(1.5);
});

it('a count that fell is not printed as memory used', () => {
  expect(counted('cpu', 515, 500)).toBe('process counts 515 B (3.0% more)');
  expect(counted('cuda', 294, 1000)).toBe('driver counts 294 B (70.6% less)');
  expect(counted('cuda', -294, 1000)).toBe('driver counts no more than before: other memory was freed meanwhile');
});

it('advises no flag that it lacks where memory is short', async () => {
  haveMemory(2);
  const options = {
    ...{ device: { kind: 'cpu' as const }, config: presetConfig('d12')!, sequence: 1024 },
    ...{ steps: 1, warmup: 0, ops: false },
  };
  await expect(bench({ ...options, batch: 64, accumulation: 1 })).rejects.toThrow(
    /^--batch 64 with --seq 1024 needs .*; no batch fits: take a shorter --seq, a smaller --model, or end what else/,
  );
  haveMemory(6);
  await expect(bench({ ...options, batch: 8, accumulation: 4 })).rejects.toThrow(/are free; --batch [1-7] fits$/);
});

it('the command prints the table and writes the same as JSON', () => {
  using place = new Workplace();
  place.data();
  const flags = '--device cpu --model d6 --batch 1 --seq 8 --steps 2 --warmup-seconds 1 --data data';
  const PATH = pathWithTool(place);
  const { stdout, stderr } = place.ok(['bench', ...flags.split(' '), '--out', 'bench.json'], { PATH });
  expect(stdout).toMatch(/^tokens\/s +[\d,]+ \(median/m);
  expect(stderr).toMatch(
    /^warming up for 1s \(--warmup-seconds\), then measuring 2 steps \(--steps\)\nmeasuring 2 steps: about \d+s; then single ops and the device's rates\n$/,
  );
  // A CPU's rate is a fraction of 1 TFLOP/s; its ops wait for memory, too.
  expect(stdout).not.toMatch(/[ =]0\.0 TFLOP|[ \t]$/m);
  expect(stdout).toMatch(/^adamw .* \d+\.\d%$/m);
  expect(stdout).toMatch(/^limit: the sum of two times: .*; data in the caches are read faster$/m);
  const written = JSON.parse(readFileSync(place.path('bench.json'), 'utf8')) as Record<string, unknown>;
  for (const key of ['command', 'date', 'device', 'step', 'peaks', 'memory', 'ops', 'flopsPerToken']) {
    expect(written, key).toHaveProperty(key);
  }
  expect(written.clocks, 'of a GPU that measured nothing').toBeNull();
});
