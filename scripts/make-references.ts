// Makes data/reference/*.json from the recorded logs of llm.c: `node --import tsx scripts/make-references.ts FOLDER`.
// The command in a log's first line gives the configuration.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Limit, Reference } from '../src/compare/reference.ts';
import { Gpt2Error } from '../src/errors.ts';
import { presetConfig } from '../src/model/config.ts';
import { packageRoot } from '../src/package-root.ts';

interface Recipe {
  /** "llmc-d6-fp32-b4-t64" is of the log llmc_tinyshakespeare_d6_fp32_b4_t64.log. */
  readonly name: string;
  readonly limits: Limit[];
  /** Facts that the log lacks: the published run's has no command line. */
  readonly published?: Pick<Reference, 'source' | 'configuration'> & { readonly file: string };
}

const recipes: readonly Recipe[] = [
  {
    name: 'llmc-d6-fp32-b4-t64',
    limits: [
      { series: 'train', from: 0, to: 99, within: 0.0002 },
      { series: 'train', from: 100, to: 119, within: 0.0005 },
      { series: 'norm', from: 0, to: 99, within: 0.02, relativeAbove: { above: 4, within: 0.005 } },
      { series: 'val', from: 0, to: 100, within: 0.0002 },
      { series: 'val', from: 101, to: 400, within: 0.012 },
    ],
  },
  {
    name: 'llmc-d12-fp32-b4-t64',
    limits: [
      { series: 'train', from: 0, to: 39, within: 0.001 },
      { series: 'val', from: 0, to: 40, within: 0.001 },
    ],
  },
  {
    name: 'llmc-d12-fp32-b4-t1024',
    limits: [
      { series: 'train', from: 0, to: 49, within: 0.0002 },
      { series: 'train', from: 50, to: 99, within: 0.001 },
      { series: 'norm', from: 0, to: 49, within: 0.02 },
      { series: 'val', from: 0, to: 40, within: 0.0002 },
      { series: 'val', from: 41, to: 200, within: 0.01 },
    ],
  },
  {
    name: 'llmc-d12-bf16-b4-t1024',
    limits: [
      { series: 'train', kind: 'mean', from: 0, to: 49, within: 0.01 },
      { series: 'train', kind: 'mean', from: 50, to: 99, within: 0.02 },
      { series: 'train', from: 0, to: 39, within: 0.02 },
      { series: 'train', from: 40, to: 99, within: 0.06 },
      { series: 'val', from: 0, to: 200, within: 0.03 },
    ],
  },
  {
    name: 'llmc-d12-fineweb10b-8xh100',
    limits: [],
    published: {
      file: 'llmc_fineweb10B_124M_8xH100.log',
      source: {
        program: 'llm.c',
        version: '2024-10-13',
        hardware: '8 x H100',
        precision: 'bf16',
        command: 'published record: KellerJordan/modded-nanogpt, records/track_1_short/2024-10-13_llmc',
      },
      // From the log: the last step, the peak of the learning rate and its step, and its end. No limits, because the batches'
      // order and size are not recorded.
      configuration: {
        ...modelFields('d12'),
        data: 'fineweb10B',
        steps: 19560,
        learningRate: 6e-4,
        warmup: 700,
        finalLearningRateFraction: 0,
        schedule: 'cosine',
        valEvery: 250,
        dtype: 'bf16',
        overfitBatch: false,
      },
    },
  },
];

/** A model's name and its sizes, by which a run matches even if its model has another name. */
function modelFields(model: string): Record<string, string | number> {
  const config = presetConfig(model);
  if (!config) {
    throw new Gpt2Error(`there is no model ${JSON.stringify(model)}: a log's first line must say -e d6, d12, …`);
  }
  const { layers, channels, heads, context } = config;
  return { model, layers, channels, heads, context };
}

/** The reference that a log of llm.c's program (f1e2ace) makes. */
export function makeReference({ name, limits, published }: Recipe, log: string): Reference {
  const dtype = name.split('-')[2]!;
  const command = /^# (.*)$/m.exec(log)?.[1] ?? '';
  const flag = (letter: string): string | undefined => new RegExp(`(?:^| )-${letter} (\\S+)`).exec(command)?.[1];
  const number = (letter: string, otherwise: number): number => Number(flag(letter) ?? otherwise);
  const batch = number('b', 4);
  const sequence = number('t', 1024);
  const points = (pattern: RegExp): [number, number][] =>
    [...log.matchAll(pattern)].map((match) => [Number(match[1]), Number(match[2])]);
  const described = (published && { source: published.source, configuration: published.configuration }) ?? {
    source: {
      program: 'llm.c',
      version: 'f1e2ace',
      hardware: 'one H100 80GB',
      precision: dtype === 'fp32' ? 'fp32, TF32 off' : 'bf16, fp32 master weights',
      command: `train_gpt2cu ${command}`,
    },
    configuration: {
      ...modelFields(flag('e') ?? ''),
      data: 'tinyshakespeare',
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
      valEvery: number('v', 20),
      valSteps: number('m', 20),
      dtype,
      overfitBatch: false,
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

/** JSON with one line per series, for readable diffs. */
export const formatReference = (reference: Reference): string =>
  `${JSON.stringify(reference, null, 2)
    .replace(/\[\s+(-?[\d.e-]+),\s+(-?[\d.e-]+)\s+\]/g, '[$1, $2]')
    .replace(/\],\s+\[/g, '], [')}\n`;

/** All references, by file name, from a folder that holds all the logs. @throws Gpt2Error naming a log that is missing */
export function makeReferences(folder: string): Map<string, string> {
  return new Map(
    recipes.map((recipe) => {
      const file =
        recipe.published?.file ?? `${recipe.name.replace('llmc', 'llmc_tinyshakespeare').replaceAll('-', '_')}.log`;
      const path = join(folder, file);
      if (!existsSync(path)) throw new Gpt2Error(`${path} does not exist: name the folder of the recorded logs`);
      return [`${recipe.name}.json`, formatReference(makeReference(recipe, readFileSync(path, 'utf8')))];
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , folder] = process.argv;
  if (!folder) {
    process.stderr.write('usage: node --import tsx scripts/make-references.ts FOLDER_OF_LOGS\n');
    process.exitCode = 2;
  } else {
    const target = join(packageRoot, 'data', 'reference');
    const made = makeReferences(folder);
    mkdirSync(target, { recursive: true });
    for (const [name, text] of made) writeFileSync(join(target, name), text);
    process.stdout.write(`${made.size} references in ${target}\n`);
  }
}
