// Options of what is trained: model (model-rows.ts), data, step, learning rate. One section of the options table (table.ts).
import { orderNames } from '../data/batches/order.ts';
import { adamwDefaults, adamwRanges } from '../optimizer/adamw.ts';
import { optimizerNames } from '../optimizer/choose.ts';
import { muonDefaults, muonRanges } from '../optimizer/muon.ts';
import { modelRows } from './model-rows.ts';
import { type Facts, type OptionRow, real, whole } from './row.ts';

/**
 * Learning rates of new models by number of channels, each up to and including `channels`. Measured for 384 (batch 4 x 64) and 768
 * channels (batch 4 x 1024), on four texts, over 300 and 2000 steps: the loss with all defaults is at most 1.0% over the best of a grid
 * of settings, except for 768 channels after 27 epochs (benchmarks/defaults.md). The rates of other rows are extrapolated.
 */
const newModelRates = [
  { channels: 128, rate: 2e-3 },
  { channels: 384, rate: 5e-4 },
  { channels: 768, rate: 3.5e-4 },
  { channels: 1280, rate: 2e-4 },
  { channels: Number.POSITIVE_INFINITY, rate: 1.5e-4 },
] as const;
const newModelRate = (channels: number): number => newModelRates.find((row) => channels <= row.channels)!.rate;

/** Weight decay of new models, as in nanoGPT. Without decay, losses are at most 2.5% lower or higher (benchmarks/defaults.md). */
const newModelDecay = 0.1;
const defaultDecay = ({ startsFromWeights }: Facts) => (startsFromWeights ? 0 : newModelDecay);

/**
 * nanoGPT's learning rate for training GPT-2 on new text, constant over the run. AdamW's moments start at zero, so whatever the
 * gradients are, the first updates are as large as the rate: ten times this rate would destroy what the weights have learned.
 */
const fineTuningRate = 3e-5;

const defaultSequence = ({ kind, context }: Facts) => Math.min(kind === 'cuda' ? 1024 : 64, context);

/** The learning rate at the end of each schedule, as a fraction of --lr. */
const finalFractions = { constant: 1, cosine: 0.1, linear: 0, wsd: 0, trapezoid: 0 } as const;

const defaultSchedule = ({ startsFromWeights, asked }: Facts) =>
  startsFromWeights && asked.finalLearningRateFraction === undefined ? 'constant' : 'cosine';

/** Columns that the options of AdamW (`ofAdamw`) and of Muon (`ofMuon`) share. */
const ofAdamw = { optional: true, without: 'optimizer' } as const;
const ofMuon = { optional: true, onlyWith: { option: 'optimizer', values: ['muon'] } } as const;
/** The row of an option whose default and range optimizer/adamw.ts defines. */
const adamw = (name: keyof typeof adamwDefaults, usage: string, help: string) => ({
  ...{ usage, type: adamwRanges[name], help, default: adamwDefaults[name], ...ofAdamw },
});

export const trainingRows = {
  steps: {
    usage: '--steps <N>',
    frequent: true,
    type: whole(1),
    help: 'optimizer steps; the schedule spans them',
    default: { text: 'one epoch' },
    insteadOf: 'tokens',
    compare: 'if the rate falls',
    elsewhere: [
      ...['x', 'max-steps', 'max-iters', 'num-iterations', 'iterations'],
      ...['epochs', 'num-epochs', 'num-train-epochs'],
    ],
  },
  ...modelRows,
  data: {
    usage: '--data <DIR>',
    frequent: true,
    type: 'text',
    help: 'folder of token shards (see prepro)',
    default: 'data/tinyshakespeare',
    compare: 'by file name',
    perMachine: true,
    bench: 'training',
    elsewhere: ['i', 'dataset', 'data-dir'],
  },
  order: {
    usage: '--order <NAME>',
    type: orderNames,
    help: "sequence: single sequences shuffled; llmc: llm.c's shuffle; file: no shuffle",
    default: 'sequence',
    resume: 'never',
    without: 'batches',
  },
  seed: {
    usage: '--seed <N>',
    type: whole(0, 2 ** 32 - 1),
    help: 'seed of the initial weights and the order of batches',
    default: 42,
    resume: 'never',
  },
  overfitBatch: {
    usage: '--overfit-batch',
    type: 'switch',
    help: 'train on the first batch only',
    default: false,
    resume: 'never',
    elsewhere: ['a'],
  },
  batch: {
    usage: '--batch <B|auto>',
    frequent: true,
    type: { ...whole(1, 65536), or: 'auto' },
    help: 'sequences per GPU in one forward and backward pass; auto: as many as fit',
    default: 4,
    resume: 'with --order sequence',
    bench: 'training',
    elsewhere: ['b', 'batch-size', 'micro-batch-size', 'per-device-train-batch-size'],
  },
  sequence: {
    usage: '--seq <T>',
    frequent: true,
    type: whole(1, 65536),
    help: 'tokens in a sequence',
    default: { text: '1024 on CUDA, 64 on CPU', of: defaultSequence },
    resume: 'with --order sequence',
    bench: 'training',
    elsewhere: ['t', 'block-size', 'sequence-length', 'seq-len', 'max-length'],
  },
  totalBatch: {
    usage: '--total-batch <TOKENS>',
    type: whole(1),
    help: 'tokens in an optimizer step, reached by gradient accumulation',
    default: { text: 'batch x seq x gpus' },
    bench: 'training',
    elsewhere: ['d', 'gradient-accumulation-steps', 'grad-accum', 'total-batch-size', 'tokens-per-step'],
  },
  windowSchedule: {
    usage: '--window-schedule <NAME>',
    type: ['constant', 'linear'],
    help: 'constant; linear: windows grow over the steps, 128 tokens at a time',
    default: { text: 'constant' },
    optional: true,
    needs: 'window',
  },
  learningRate: {
    usage: '--lr <X>',
    frequent: true,
    type: real(0),
    help: 'peak learning rate',
    default: {
      text: `by width: d6 ${newModelRate(384)}, d12 ${newModelRate(768)}; from weights ${fineTuningRate}`,
      of: ({ startsFromWeights, channels }) => (startsFromWeights ? fineTuningRate : newModelRate(channels)),
    },
    elsewhere: ['l', 'max-lr'],
    without: 'schedule',
  },
  warmup: {
    usage: '--warmup <N>',
    type: whole(0),
    help: 'steps of linear warmup',
    default: { text: 'a quarter of the steps, at most 500; from weights 0' },
    elsewhere: ['u', 'warmup-steps', 'warmup-iters'],
    without: 'schedule',
  },
  schedule: {
    usage: '--schedule <NAME>',
    type: ['cosine', 'linear', 'constant', 'wsd', 'trapezoid'],
    help: 'how the rate falls: cosine, linear, constant; wsd, trapezoid: flat, then down',
    default: { text: 'cosine; from weights constant', of: defaultSchedule },
    compare: 'if the rate falls',
    elsewhere: ['k', 'lr-scheduler', 'lr-scheduler-type', 'decay-lr'],
  },
  finalLearningRateFraction: {
    usage: '--final-lr-frac <X>',
    type: real(0, 1),
    help: 'learning rate at the end of --schedule, as a share of --lr; 1: no decay',
    default: {
      text: Object.entries(finalFractions)
        .map(([name, fraction]) => `${name} ${fraction}`)
        .join(', '),
      of: (facts) => finalFractions[(facts.asked.schedule ?? defaultSchedule(facts)) as keyof typeof finalFractions],
    },
    compare: 'if the rate falls',
    elsewhere: ['q', 'min-lr'],
    without: 'schedule',
  },
  decayFraction: {
    usage: '--decay-frac <X>',
    type: real(0, 1),
    help: 'share of the steps, at the end, in which wsd or trapezoid (linearly) falls',
    default: 0.2,
    optional: true,
    onlyWith: { option: 'schedule', values: ['wsd', 'trapezoid'] },
    compare: 'if the rate falls',
    without: 'schedule',
  },
  optimizer: {
    usage: '--optimizer <NAME>',
    type: optimizerNames,
    help: "adamw, or muon: Muon for the blocks' matrices, AdamW for all other parameters",
    default: 'adamw',
    optional: true,
    resume: 'never',
    bench: 'training',
    elsewhere: ['optim'],
  },
  embeddingLearningRate: {
    usage: '--embedding-lr <X>',
    type: real(0),
    help: "AdamW's peak learning rate for embeddings; follows the schedule of --lr",
    default: { text: '--lr' },
    ...ofAdamw,
  },
  headLearningRate: {
    usage: '--head-lr <X>',
    type: real(0),
    help: "AdamW's peak learning rate for an untied head; follows the schedule of --lr",
    default: { text: '--lr' },
    ...ofAdamw,
    onlyWith: { option: 'head', values: ['untied'] },
  },
  muonLearningRate: {
    usage: '--muon-lr <X>',
    type: real(0),
    help: "Muon's peak learning rate; it follows the schedule of --lr",
    default: muonDefaults.learningRate,
    ...ofMuon,
  },
  muonMomentum: {
    usage: '--muon-momentum <X>',
    type: muonRanges.momentum,
    help: "share of Muon's average of gradients that a step keeps",
    default: muonDefaults.momentum,
    ...ofMuon,
  },
  muonMomentumWarmup: {
    usage: '--muon-momentum-warmup <N>',
    type: muonRanges.momentumWarmup,
    help: 'steps in which the momentum goes from 0.85 to --muon-momentum; 0: none',
    default: 0,
    ...ofMuon,
  },
  newtonSchulz: {
    usage: '--newton-schulz <NAME>',
    type: muonRanges.newtonSchulz,
    help: 'how Muon makes a momentum orthogonal: polar-express, quintic, cubic',
    default: muonDefaults.newtonSchulz,
    ...ofMuon,
    bench: 'training',
  },
  weightDecay: {
    usage: '--weight-decay <X>',
    type: real(0),
    help: 'weight decay of matrices',
    default: { text: `${newModelDecay}; from weights 0`, of: defaultDecay },
    without: 'optimizer',
    elsewhere: ['c'],
  },
  muonWeightDecay: {
    usage: '--muon-weight-decay <X>',
    type: real(0),
    help: 'weight decay of the matrices that Muon updates; of others: --weight-decay',
    default: { text: '--weight-decay' },
    ...ofMuon,
  },
  beta1: adamw('beta1', '--beta1 <X>', "share of AdamW's first moment that a step keeps"),
  beta2: adamw('beta2', '--beta2 <X>', "share of AdamW's second moment that a step keeps"),
  eps: adamw('eps', '--eps <X>', "AdamW's epsilon, added to the root of the second moment"),
  gradientClip: {
    usage: '--grad-clip <X>',
    type: real(0),
    help: 'largest gradient norm; 0: no clipping',
    default: 1,
    elsewhere: ['max-grad-norm', 'clip-grad'],
  },
  skipSpikes: {
    usage: '--skip-spikes <Z>',
    type: real(1),
    help: 'skip updates with loss or norm Z sigma over the mean of the last 128 steps',
    optional: true,
  },
} as const satisfies Record<string, OptionRow>;
