// The rooms of src: folders whose imports point one way. A room may import the rooms in its list `imports`, directly or indirectly, but
// only the files in their lists `open`. A test compares the code with these lists; docs/README.md and CONTRIBUTING.md show them.

interface Room {
  readonly purpose: string;
  readonly imports: readonly string[];
  /** Files that other rooms import, without .ts, between spaces; index.ts, program.ts and cli.ts may import all. */
  readonly open: string;
}

/** Lowest room first. */
export const rooms: Readonly<Record<string, Room>> = {
  base: {
    purpose: 'errors, their words, checks of what a program gives, files, signals',
    imports: [],
    open: `checks/given checks/nearest errors lazily package-root quantile signals wording
      files/cache-folder files/checked-json files/half-floats files/make-folder files/regular-file files/strict-text`,
  },
  native: {
    purpose: 'library loading, devices and their memory, tensors; the only room that uses FFI',
    imports: ['base'],
    open: `absent-device bindings.generated communicator device element-types file-lock find-library generator
      gpu-energy koffi last-resort nvrtc select-device start-thread temporary-folder tensor`,
  },
  ops: {
    purpose:
      "one function per op, generated: a shape check, then one native call; `cases/`: each op's sizes, formula in double and tolerances; `kernels/`: kernels of a user",
    imports: ['native'],
    open: `cases/case-numbers cases/index cases/op-case cases/prepared-case cases/run-case collectives contract
      ops.generated replacements variants kernels/brackets kernels/card-hash kernels/card-scratch kernels/compile
      kernels/compiler kernels/import-card kernels/kernel-card kernels/kernels kernels/signature kernels/use-cards`,
  },
  model: {
    purpose:
      "configurations; one table of a model's parts (`architecture.ts`), of parameters, of activations; `forward.ts`, `backward.ts`",
    imports: ['ops'],
    open: `activation-tables activations architecture arena backward config decode flops forward head initialize
      key-value-cache mask memory model parameters sharded-parameters`,
  },
  optimizer: {
    purpose: 'the interface of optimizers, AdamW and Muon',
    imports: ['model'],
    open: 'adamw assign choose muon state',
  },
  tokenizer: {
    purpose: 'from text to tokens and back',
    imports: ['native'],
    open: 'character-tokenizer folder-tokenizer loss safe-cuts tokenizer tokenizer-file tokens',
  },
  data: {
    purpose: '`shards/` of tokens, `datasets/` that prepro makes, `batches/` in an order',
    imports: ['tokenizer', 'model'],
    open: `batches/batch batches/loader batches/order batches/sequences datasets/datasets datasets/download
      datasets/find-shards shards/dataset-file shards/multiple-choice shards/shard`,
  },
  weights: {
    purpose:
      '`checkpoint/`: complete or absent; `formats/`: model files, each read and written in one file, and the hub; `files/`: what both need',
    imports: ['optimizer', 'data'],
    open: `checkpoint/background checkpoint/capture checkpoint/directory checkpoint/prune checkpoint/read-checkpoint
      checkpoint/write files/layout files/names formats/formats formats/hub weights`,
  },
  ranks: {
    purpose: 'processes that train together: how they find each other, exchange values and report a failure',
    imports: ['native'],
    open: 'place ranks',
  },
  inference: {
    purpose: '`sample/`: texts; `evaluate/`: losses and questions',
    imports: ['data', 'ranks'],
    open: 'evaluate/hellaswag evaluate/mean-loss sample/generate',
  },
  options: {
    purpose:
      'the options table: every option of a run in one row, with its flag, default, range and help; presets; `recipe.ts`',
    imports: ['weights'],
    open: 'complete-options configuration read-options resumed-options row sources table',
  },
  runs: {
    purpose: "a run's folder, log and lock",
    imports: ['options'],
    open: 'curves existing lock paths reader schema writer',
  },
  report: {
    purpose:
      '`compare/` with references or other runs; plots; the HTML report, whose browser scripts are in `page/`; `live/`: the live page; `tensorboard/`',
    imports: ['runs'],
    open: 'format-text kernel-round live/live-page machine-load tensorboard/scalar-file',
  },
  train: {
    purpose: '`step/`; `plan/`: options complete, memory; `run/`: the loop; `failure/`: what is saved and replayed',
    imports: ['inference', 'report'],
    open: 'plan/plan-memory step/trainer step/training',
  },
  lab: {
    purpose:
      'what `kernel` and `course` do: tests, times, figures of the compiler; `bench/`: times of a step; `doctor/`: checks of the machine',
    imports: ['train'],
    open: '',
  },
  commands: {
    purpose: 'the command line, on `src/index.ts`, the public API, and `src/program.ts`, what only commands need',
    imports: [],
    open: '',
  },
};
