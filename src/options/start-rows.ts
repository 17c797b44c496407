// Options that apply to one start of the program and that no file records. One section of the options table (table.ts).
import { shellWord } from '../base/wording.ts';
import { runPresetNames } from './presets.ts';
import { type OptionRow, real, whole } from './row.ts';

export const defaultPort = 8042;

export const startRows = {
  out: {
    usage: '--out <DIR>',
    frequent: true,
    type: 'text',
    help: 'run folder: log, configuration, checkpoints',
    default: { text: 'runs/<DATA>-<MODEL>-<TIME>' },
    elsewhere: ['o', 'out-dir', 'output-dir', 'run-dir'],
  },
  resume: {
    usage: '--resume [auto]',
    frequent: true,
    alone: true,
    type: { switch: true, or: 'auto' },
    help: 'continue the run in --out from its newest valid checkpoint; auto: if any',
    default: false,
    elsewhere: ['y', 'init-from=resume', 'resume-from-checkpoint'],
    otherwise: (value) => `to continue a run there, give --out ${shellWord(value)} --resume`,
  },
  overwrite: {
    usage: '--overwrite',
    type: 'switch',
    help: 'replace the run in --out; keep its log',
    default: false,
  },
  preset: {
    usage: '--preset <NAME>',
    frequent: true,
    type: runPresetNames,
    help: 'options of a ready-made run (see gpt2 presets); --config and flags override it',
  },
  recipe: {
    usage: '--recipe <NAME>',
    type: ['modern', 'windowed'],
    help: 'modern: a modern GPT (docs/recipe.md); windowed: with windows (docs/windows.md)',
    bench: true,
  },
  tokens: {
    usage: '--tokens <N>',
    type: { ...whole(1), units: true },
    help: 'tokens to train on, as 1700000000 or 1.7B, instead of --steps',
    insteadOf: 'steps',
    elsewhere: ['max-tokens', 'num-tokens', 'token-budget'],
  },
  config: {
    usage: '--config <PATH>',
    type: 'text',
    help: "read options from a JSON file or a run's config.json; flags override it",
  },
  stopAfter: {
    usage: '--stop-after <N>',
    type: whole(1),
    help: "save and exit after N steps, counted from the run's first start",
  },
  maxMemory: {
    usage: '--max-memory <GIB>',
    type: real(0.1, 1_000_000),
    help: 'most device memory to use, in GiB',
    default: { text: 'all that is free' },
  },
  dryRun: {
    usage: '--dry-run',
    type: 'switch',
    help: 'print steps, epochs, time and memory of the run; do not train',
    default: false,
  },
  for: {
    usage: '--for <GPU>',
    type: 'text',
    help: '--dry-run for a GPU that is not here: h100, h200, a100, 4090, or 24GB',
    needs: 'dryRun',
  },
  serve: {
    usage: '--serve [PORT]',
    frequent: true,
    alone: defaultPort,
    type: whole(0, 65535),
    help: `show the run in a browser while it trains (PORT 0: any free; absent: ${defaultPort})`,
  },
  serveHost: {
    usage: '--serve-host <ADDRESS>',
    type: 'text',
    help: 'address that --serve listens on; no password: all who reach it can read',
    default: '127.0.0.1',
    needs: 'serve',
  },
  tensorboard: {
    usage: '--tensorboard [DIR]',
    alone: '',
    type: 'text',
    help: 'write TensorBoard event files too (DIR absent: into the run folder)',
    elsewhere: ['wandb', 'wandb-log', 'wandb-project', 'wandb-run-name', 'report-to'],
  },
  json: {
    usage: '--json',
    type: 'switch',
    help: 'print events as JSON lines on stdout, without progress',
    default: false,
  },
} as const satisfies Record<string, OptionRow>;
