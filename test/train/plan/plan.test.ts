// Plans runs with --dry-run, --batch auto and --max-memory. plan-grid.test.ts checks that the flags a refusal names do fit.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../../src/base/package-root.ts';
import { readRun, type TrainOptions, train } from '../../../src/index.ts';
import { totalOf } from '../../../src/model/memory.ts';
import { resolveSources } from '../../../src/options/sources.ts';
import { outlookText, saveSeconds } from '../../../src/train/plan/outlook.ts';
import { planRun, planSources } from '../../../src/train/plan/plan.ts';
import { withCode, workplace } from '../../support/cli.ts';
import { noticesOf, tinyRun } from '../../support/tiny-run.ts';

const benchmarks = join(packageRoot, 'benchmarks', 'h100');
/** A result of `gpt2 bench` on an H100. */
interface Recorded {
  readonly batch: number;
  readonly sequence: number;
  readonly config: { readonly layers: number; readonly channels: number; readonly heads: number };
  readonly memory: { readonly plannedTotal: number; readonly used: number; readonly before: number };
  readonly step: { readonly tokensPerSecond: { readonly median: number } };
}

const place = workplace();
let data: string;
beforeAll(() => {
  data = place.data({ vocabulary: 200 });
});

/** Plans as if a step took so many seconds. */
const plan = (more: TrainOptions, seconds = 0.5) =>
  planSources(resolveSources({ device: 'cpu', data, sequence: 64, ...more }), {}, async () => seconds);
const dryRun = () => `train --dry-run --device cpu --data ${data}`;

it('adds up, and takes nothing', async () => {
  const { memory, refusal, ...rest } = await plan({ model: 'd12', batch: 8, totalBatch: 2048, out: place.path('new') });
  expect(rest).toMatchObject({ model: 'd12', batch: 8, sequence: 64, accumulation: 4, recompute: 'none' });
  // A vocabulary of 200, padded to 256.
  const weights = 4 * ((256 + 1024) * 768 + 12 * (12 * 768 ** 2 + 13 * 768) + 2 * 768);
  expect(memory.get('weights')).toBe(weights);
  expect(memory.get('optimizer state')).toBe(2 * weights);
  expect(refusal).toBeUndefined();
  expect(existsSync(place.path('new'))).toBe(false);
});

it('says what saving takes of the host, where a save is a copy, beside the total', async () => {
  const sizes = { model: 'd12', batch: 8 } as const;
  expect((await plan({ ...sizes, saveEvery: 0 })).savingMemory).toBe(0);
  const { memory, savingMemory, availableHost } = await plan({ ...sizes, saveEvery: 10 });
  expect(savingMemory).toBe(3 * memory.get('weights')!);
  expect(availableHost).toBeGreaterThan(2 ** 28);
  expect(memory).toEqual((await plan(sizes)).memory);
  const { stdout } = await place.okHere(`${dryRun()} --model d6 --seq 64 --save-every 10`);
  expect(stdout).toMatch(/\n {2}free +[\d.]+ \w+\nhost memory for saving: 127 MiB in addition, of [\d.]+ \w+ free\n/);
});

it('is not what train() gives', async () => {
  const out = place.path('untrained');
  const options: TrainOptions = { device: 'cpu', data, model: 'd6', sequence: 8, steps: 1, out };
  await expect(train({ ...options, dryRun: true })).rejects.toThrow(
    /^train\(\) does not take dryRun; planRun\(\) plans a run/,
  );
  expect(existsSync(out)).toBe(false);
});

it('computes again only where nothing else fits', async () => {
  const least = totalOf((await plan({ model: 'd12', sequence: 1024, batch: 1 })).memory) / 2 ** 30;
  const tight = { model: 'd12', sequence: 1024, batch: 'auto', totalBatch: 4096 } as const;
  expect(await plan({ ...tight, maxMemory: least + 0.01 })).toMatchObject({ batch: 1, recompute: 'none' });
  expect(await plan({ ...tight, maxMemory: least - 0.05 })).toMatchObject({ recompute: 'gelu' });
  await expect(plan({ ...tight, maxMemory: 0.5 })).rejects.toThrow(
    /^--batch auto: not one sequence of --seq 1024 fits, --max-memory 0\.5 allows no more; take a shorter --seq or a smaller --model$/,
  );
});

it.each(['', '--json'])('ends with 1 where the run would not fit, with "%s"', async (more) => {
  const asked = `--model d12 --batch 64 --seq 64 --max-memory 2 ${more}`;
  const { stdout, stderr } = withCode(1, await place.here(`${dryRun()} ${asked}`));
  expect(stderr).toMatch(/--batch 64 with --seq 64 needs .* fits\n$/);
  expect(stdout).toContain('activations');
  if (more) expect(stderr).toContain((JSON.parse(stdout) as { refusal: string }).refusal);
});

it('says what a step comes to where only --batch auto settles it', async () => {
  const asked = `${dryRun()} --layers 1 --channels 32 --heads 2 --context 64 --seq 32 --batch auto`;
  const tokens = (text: string) => /here; a step has (\d+) tokens: --total-batch is not given\n/.exec(text)?.[1];
  // As many tokens as pay on a CPU: 4096.
  expect(tokens((await place.here(asked)).stdout)).toBe('4096');
  expect(tokens((await place.here(`${asked} --total-batch 256`)).stdout)).toBeUndefined();
});

it('trains with what it picked, and a resumed run takes the same', async () => {
  const out = place.path('run');
  const options: TrainOptions = { ...tinyRun, data, out, context: 64, batch: 'auto', totalBatch: 256, steps: 4 };
  expect(await noticesOf({ ...options, stopAfter: 2 })).toContain('--batch auto is --batch 8 --recompute none here');
  expect(await plan({ out, resume: true, batch: 8, totalBatch: 512 })).toMatchObject({ steps: 2, tokens: 1024 });
  await train({ out, resume: true });
  expect(readRun(out).configuration).toMatchObject({ batch: 8, totalBatch: 256, recompute: 'none' });
});

it.each<[what: string, options: TrainOptions, seconds: number, text: string | RegExp, warnings: string[]]>([
  ['epoch', { valEvery: 0 }, 0.5, /^9 steps, 4,608 tokens, 0.922 epochs; 5s, until 14:30; checkpoints of 127 MiB$/, []],
  ['up to --stop-after', { steps: 50, stopAfter: 4, valEvery: 0 }, 0.5, /^4 steps, 2,048 tokens, [^;]*; 2s, /, []],
  ['validation is a third of training', { steps: 8, valEvery: 1, valTokens: 512 }, 1, /; 11s, until 14:30; /, []],
  ['a day', { steps: 2, valEvery: 0 }, 40000, /; 22h13m, until 2026-11-27 12:43; /, ['a step takes 11h06m, over 60 s']],
  ['days', { steps: 4, valEvery: 0 }, 30000, /33h20m/, ['33h20m is over 24 hours', 'a step takes 8h20m, over 60 s']],
  ['epochs', { steps: 20_000, valEvery: 0 }, 0.5, /^20,000 steps, 10,240,000 tokens, /, ['2,050 epochs: above 4 ']],
  ['one batch, again and again', { steps: 50, overfitBatch: true, valEvery: 0 }, 0.5, /^50 steps, 25,600 tokens; /, []],
])('says what the run comes to: %s', async (_, options, seconds, text, warnings) => {
  const planned = await plan({ model: 'd6', batch: 8, totalBatch: 512, ...options }, seconds);
  expect(outlookText(planned, new Date(2026, 10, 26, 14, 30, 0))).toMatch(text);
  expect(planned.warnings).toEqual(warnings.map((each) => expect.stringMatching(`^warning: ${each}`)));
});

it.each([1, 4])('measures a step of %i micro-batches, and saves nothing', async (accumulation) => {
  const out = place.path('measured');
  const planned = await planRun({ ...tinyRun, data, batch: 2, totalBatch: 64 * accumulation, steps: 3, out });
  expect(planned.stepSeconds).toBeGreaterThan(0);
  expect(planned.seconds).toBeCloseTo(3 * planned.stepSeconds! + saveSeconds(planned.checkpointBytes), 9);
  expect(existsSync(out)).toBe(false);
});

it.each(readdirSync(benchmarks).filter((file) => /^d\d+-/.test(file)))(
  '--for plans the memory that an H100 planned, fits where it fitted, and takes about its time: %s',
  async (file) => {
    const recorded = JSON.parse(readFileSync(join(benchmarks, file), 'utf8')) as Recorded;
    const { batch, sequence, config, memory, step } = recorded;
    const { layers, channels, heads } = config;
    const sizes = { model: 'custom', layers, channels, heads, batch, sequence, sampleEvery: 0, steps: 1 } as const;
    const data = place.data({ vocabulary: 50257 });
    const planFor = (gpu: string) =>
      planSources(resolveSources({ ...sizes, data, device: 'auto', for: gpu, dryRun: true }), {});
    const planned = await planFor('h100');
    expect(Math.abs(totalOf(planned.memory) / memory.plannedTotal - 1)).toBeLessThan(0.01);
    const taken = (memory.used + memory.before) / 2 ** 30;
    expect((await planFor(`${1.05 * taken + 0.5}GB`)).refusal).toBeUndefined();
    expect((await planFor(`${0.99 * taken}GB`)).refusal).toMatch(/GiB of memory, .* are free; /);
    const seconds = (batch * sequence) / step.tokensPerSecond.median;
    expect(planned.stepSeconds! / seconds).toBeGreaterThan(0.6);
    expect(planned.stepSeconds! / seconds).toBeLessThan(1.15);
  },
);

it('--for leaves what driver and CUDA take, as the table in docs/runs.md, and its total is what must be free', async () => {
  const eight = `train --dry-run --data ${place.data({ vocabulary: 50257 })} --model d12 --seq 1024 --steps 1 --for 8GB --batch`;
  const { stdout } = await place.here(`${eight} auto --recompute none`);
  expect(stdout).toContain('--batch auto is --batch 12 --recompute none here');
  const large = await place.here(`${eight} 16 --recompute none`);
  const refused = /needs ([\d.]+) GiB of memory, 7\.3 GiB of 8\.0 GiB are free; --recompute gelu, or .* fits\n$/;
  const total = /\n {2}kernels, graphs +384 MiB\n {2}total +([\d.]+) GiB\n/;
  expect(refused.exec(large.stderr)?.[1]).toBe(Number(total.exec(large.stdout)?.[1]).toFixed(1));
  expect((await place.here(`${eight.replace('d12', 'd48')} 1`)).stderr).toMatch(/or a larger GPU in --for\n$/);
});

it.each<[options: TrainOptions, message: RegExp]>([
  [{ for: 'h900' }, /^--for takes h100, h200, a100, 4090, or memory such as 24GB, not "h900"$/],
  [{ for: 'a100', dtype: 'fp8' }, /^--dtype fp8 needs an Ada GPU, Hopper or later, not A100; take --dtype bf16$/],
  [{ for: 'h100', device: 'cpu' }, /^--for h100 plans for a GPU, --device cpu does not: leave out one of them$/],
])('refuses %j', async (options, message) => {
  await expect(plan({ device: 'auto', model: 'd6', batch: 4, dryRun: true, ...options })).rejects.toThrow(message);
});
