// The models of the recipe "modern" that PyTorch recorded. Their weights are drawn: ours are within 2e-6 of PyTorch's.
import type { GivenParts } from '../../src/model/architecture.ts';
import type { ModelConfig } from '../../src/model/config.ts';
import { castWeights, createModel, type Model } from '../../src/model/model.ts';
import { parameterTable, realCount } from '../../src/model/parameters.ts';
import type { Device } from '../../src/native/device.ts';
import { openGenerator } from '../../src/native/generator.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import type { OptimizerChoice } from '../../src/optimizer/assign.ts';
import { isBlockMatrix, Muon } from '../../src/optimizer/muon.ts';
import { readFixture, readFixtureJson } from './fixtures.ts';
import { drawnModel } from './tiny-model.ts';

type Sizes = Readonly<Record<'layers' | 'channels' | 'heads' | 'context' | 'vocabulary', number>>;

interface Recorded {
  readonly model: Sizes;
  readonly B: number;
  readonly T: number;
  readonly seed: number;
  /** Factor of the learning rates, in each step. */
  readonly factors: readonly number[];
  readonly losses: readonly number[];
}

export const modernFixture = readFixtureJson<{
  readonly parts: Readonly<Record<'attentionScale' | 'softcap', number>>;
  readonly training: {
    readonly muon: Readonly<Record<'learningRate' | 'weightDecay' | 'momentum', number>>;
    readonly adamw: Readonly<Record<'beta1' | 'beta2' | 'epsOfSums' | 'wte' | 'headw' | 'vectors', number>>;
  };
  readonly tiny: Recorded & { readonly draws: Readonly<Record<string, readonly [mean: number, deviation: number]>> };
  readonly small: Recorded & {
    readonly drawn: Readonly<Record<string, { readonly first: readonly number[]; readonly norm: number }>>;
  };
}>('modern.json');
export const modernTensors = readFixture('modern.safetensors');
export const modernBatch = {
  inputs: modernTensors.get('tokens').values as Int32Array,
  targets: modernTensors.get('targets').values as Int32Array,
};

const { attentionScale, softcap } = modernFixture.parts;

/** The parts of a modern GPT. */
export const modernParts: GivenParts = {
  attentionScale,
  softcap,
  norm: 'rmsnorm',
  embeddingNorm: 'rmsnorm',
  positions: 'rotary',
  queryKeyNorm: 'rmsnorm',
  activation: 'relu2',
  head: 'untied',
  initialization: 'fan-in',
};

/** The parts of a modern GPT with windows, documents, skips and value embeddings. */
export const windowedParts = {
  ...modernParts,
  ...{ window: 20, shortWindow: 7, documentMask: true, skips: 'learned', valueEmbeddings: 2 },
} as const satisfies GivenParts;

/** As options of a run, whose momentum grows too. */
export const windowedFlags =
  '--positions rotary --qk-norm rmsnorm --window 12 --short-window 5 --window-schedule linear --document-mask --skips learned --value-embeddings 1 --optimizer muon --muon-momentum-warmup 30';

const modernConfig = ({ vocabulary: vocabularySize, layers, channels, heads, context }: Sizes): ModelConfig => ({
  ...{ layers, channels, heads, context, vocabularySize },
  ...modernParts,
});

export const tinyModernConfig = modernConfig(modernFixture.tiny.model);
export const smallModernConfig = modernConfig(modernFixture.small.model);

/** The tiny model, random everywhere: no weight is 0 and no gain is 1. */
export function tinyModernModel(device: Device): Model {
  const { B, T, seed, draws } = modernFixture.tiny;
  const model = createModel(device, tinyModernConfig, { B, T, purpose: 'training' });
  using generator = openGenerator(device.description.library, seed);
  for (const parameter of parameterTable(tinyModernConfig)) {
    const [mean, deviation] = draws[parameter.name]!;
    model.masters.write(parameter, generator.normal(new Float32Array(realCount(parameter)), mean, deviation));
  }
  castWeights(model);
  return model;
}

/** The small model with its initial weights. */
export function smallModernModel(device: Device): Model {
  const { B, T, seed } = modernFixture.small;
  return drawnModel(device, smallModernConfig, { B, T, purpose: 'training' }, seed);
}

/** The recipe's optimizers, for steps of a learning rate that is the schedule's factor. */
export function modernOptimizer(tokensPerStep: number): OptimizerChoice {
  const { muon, adamw } = modernFixture.training;
  const { beta1, beta2, epsOfSums } = adamw;
  // The recipe sums the gradients of tokens; ours are means.
  const ofRate = (rate: number) => new AdamW({ rate, weightDecay: 0, beta1, beta2, eps: epsOfSums / tokensPerStep });
  const [embedding, head, vectors] = [ofRate(adamw.wte), ofRate(adamw.headw), ofRate(adamw.vectors)];
  const { learningRate: rate, ...ofMuon } = muon;
  const matrices = new Muon({ rate, ...ofMuon, newtonSchulz: 'cubic' });
  return (parameter) => {
    if (isBlockMatrix(parameter)) return matrices;
    if (parameter.kind === 'vector') return vectors;
    return parameter.name === 'wte' ? embedding : head;
  };
}
