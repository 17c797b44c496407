// Makes data/reference/*.json from the recorded logs of llm.c: `node --import tsx scripts/make-references.ts FOLDER`.
// The command in a log's first line gives the configuration; the limits are those that DESIGN's tests hold us to.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Limit, Reference } from '../src/compare/reference.ts';

interface Recipe {
  readonly file: string;
  readonly name: string;
  readonly precision: string;
  readonly dtype: string;
  readonly limits: Limit[];
  /** What the log itself does not say: the published run has no command line in it. */
  readonly published?: Pick<Reference, 'source' | 'configuration'>;
}

const recipes: readonly Recipe[] = [
  {
    file: 'llmc_tinyshakespeare_d6_fp32_b4_t64.log',
    name: 'llmc-d6-fp32-b4-t64',
    precision: 'fp32, TF32 off',
    dtype: 'fp32',
    limits: [
      { series: 'train', from: 0, to: 99, within: 0.0002 },
      { series: 'train', from: 100, to: 119, within: 0.0005 },
      { series: 'norm', from: 0, to: 99, within: 0.02, relative: { above: 4, within: 0.005 } },
      { series: 'val', from: 0, to: 100, within: 0.0002 },
      { series: 'val', from: 101, to: 400, within: 0.012 },
    ],
  },
  {
    file: 'llmc_tinyshakespeare_d12_fp32_b4_t64.log',
    name: 'llmc-d12-fp32-b4-t64',
    precision: 'fp32, TF32 off',
    dtype: 'fp32',
    limits: [
      { series: 'train', from: 0, to: 39, within: 0.001 },
      { series: 'val', from: 0, to: 40, within: 0.001 },
    ],
  },
  {
    file: 'llmc_tinyshakespeare_d12_fp32_b4_t1024.log',
    name: 'llmc-d12-fp32-b4-t1024',
    precision: 'fp32, TF32 off',
    dtype: 'fp32',
    limits: [
      { series: 'train', from: 0, to: 49, within: 0.0002 },
      { series: 'train', from: 50, to: 99, within: 0.001 },
      { series: 'norm', from: 0, to: 49, within: 0.02 },
      { series: 'val', from: 0, to: 40, within: 0.0002 },
      { series: 'val', from: 41, to: 200, within: 0.01 },
    ],
  },
  {
    file: 'llmc_tinyshakespeare_d12_bf16_b4_t1024.log',
    name: 'llmc-d12-bf16-b4-t1024',
    precision: 'bf16, fp32 master weights',
    dtype: 'bf16',
    limits: [
      { series: 'train', from: 0, to: 49, within: 0.01, mean: true },
      { series: 'train', from: 50, to: 99, within: 0.02, mean: true },
      { series: 'train', from: 0, to: 39, within: 0.02 },
      { series: 'train', from: 40, to: 99, within: 0.06 },
      { series: 'val', from: 0, to: 200, within: 0.03 },
    ],
  },
  {
    file: 'llmc_fineweb10B_124M_8xH100.log',
    name: 'llmc-d12-fineweb10b-8xh100',
    precision: 'bf16',
    dtype: 'bf16',
    limits: [],
    published: {
      source: {
        program: 'llm.c',
        version: '2024-10-13',
        hardware: '8 x H100',
        precision: 'bf16',
        command: 'published record: KellerJordan/modded-nanogpt, records/track_1_short/2024-10-13_llmc',
      },
      // Read off the log: its last step, the peak of the learning rate and where it is reached, and where it ends.
      configuration: {
        data: 'fineweb10B',
        layers: 12,
        channels: 768,
        heads: 12,
        steps: 19560,
        learningRate: 6e-4,
        warmup: 700,
        finalLearningRateFraction: 0,
        schedule: 'cosine',
        dtype: 'bf16',
      },
    },
  },
];

/** The reference that a log of llm.c's program (f1e2ace) makes. */
export function makeReference({ name, precision, dtype, limits, published }: Recipe, log: string): Reference {
  const command = /^# (.*)$/m.exec(log)?.[1] ?? '';
  const flag = (letter: string): string | undefined => new RegExp(`(?:^| )-${letter} (\\S+)`).exec(command)?.[1];
  const number = (letter: string, otherwise: number): number => Number(flag(letter) ?? otherwise);
  const batch = number('b', 4);
  const sequence = number('t', 1024);
  const points = (pattern: RegExp): [number, number][] =>
    [...log.matchAll(pattern)].map((match) => [Number(match[1]), Number(match[2])]);
  const described = published ?? {
    source: {
      program: 'llm.c',
      version: 'f1e2ace',
      hardware: 'one H100 80GB',
      precision,
      command: `train_gpt2cu ${command}`,
    },
    configuration: {
      data: 'tinyshakespeare',
      layers: { d6: 6, d12: 12 }[flag('e') ?? ''] ?? 0,
      channels: { d6: 384, d12: 768 }[flag('e') ?? ''] ?? 0,
      heads: { d6: 6, d12: 12 }[flag('e') ?? ''] ?? 0,
      batch,
      sequence,
      totalBatch: number('d', batch * sequence),
      steps: number('x', 0),
      learningRate: number('l', 3e-4),
      warmup: number('u', 0),
      finalLearningRateFraction: number('q', 1),
      schedule: 'cosine',
      weightDecay: number('c', 0),
      gradientClip: 1,
      seed: 42,
      order: 'llmc',
      valSteps: number('m', 20),
      dtype,
    },
  };
  return {
    name,
    ...described,
    series: {
      train: points(/^s:(\d+) trl:(\S+)/gm),
      val: points(/^s:(\d+) tel:(\S+)/gm),
      norm: points(/^s:(\d+) trl.* norm:(\S+)/gm),
      lr: points(/^s:(\d+) trl.* lr:(\S+)/gm),
    },
    limits,
  };
}

/** A series in one line, so that a reference can be read and compared. */
export const formatReference = (reference: Reference): string =>
  `${JSON.stringify(reference, null, 2)
    .replace(/\[\s+(-?[\d.e-]+),\s+(-?[\d.e-]+)\s+\]/g, '[$1, $2]')
    .replace(/\],\s+\[/g, '], [')}\n`;

/** All references whose logs a folder holds, by file name. */
export function makeReferences(folder: string): Map<string, string> {
  const made = new Map<string, string>();
  for (const recipe of recipes) {
    const path = join(folder, recipe.file);
    if (existsSync(path))
      made.set(`${recipe.name}.json`, formatReference(makeReference(recipe, readFileSync(path, 'utf8'))));
  }
  return made;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const target = fileURLToPath(new URL('../data/reference/', import.meta.url));
  mkdirSync(target, { recursive: true });
  const made = makeReferences(process.argv[2] ?? '');
  for (const [name, text] of made) writeFileSync(join(target, name), text);
  process.stdout.write(`${made.size} references in data/reference\n`);
}
