// A model on a device: configuration, weights, and activations. forward.ts and backward.ts run a model; src/train adds gradients and
// optimizer state.
import { checkArguments, checkGiven, whole } from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';
import type { Device } from '../native/device.ts';
import {
  attentionScratch,
  classifierScratch,
  embeddingScratch,
  factorsScratch,
  fp8MatmulScratch,
  fp8QuantizeWeightScratch,
  matmulScratch,
  normScratch,
} from '../ops/ops.generated.ts';
import { type ActivationSizes, headChunk, recomputeNames } from './activation-tables.ts';
import { type Activations, activationsOf } from './activations.ts';
import { everyParameter, ParameterArena, type ParameterCopy, undivided } from './arena.ts';
import { checkConfig, checkDtype, type ModelConfig, paddedVocabularySize, sizeRanges } from './config.ts';
import { type QueryKeyTransform, queryKeyTransformOf } from './positions.ts';
import { ShardedParameters, type Sharding } from './sharded-parameters.ts';

export interface Model {
  readonly device: Device;
  readonly config: ModelConfig;
  /** The weights that forward and backward read, in the device's element type (fp32 or bf16). */
  readonly weights: ParameterArena;
  /** Master weights in fp32, which the optimizer updates. If `weights` are fp32, both are the same memory. */
  readonly masters: ParameterCopy;
  /** The division of optimizer state and master weights between ranks; undefined if each rank holds everything. */
  readonly sharding: Sharding | undefined;
  readonly activations: Activations;
  /** The change of queries, keys and values before attention, such as a rotation; undefined in GPT-2. */
  readonly queryKeyTransform: QueryKeyTransform | undefined;
}

/**
 * Allocates a model whose weights are zero, for batches of up to B x T tokens. The memory is freed when the device is closed.
 * @throws UsageError for an invalid configuration or batch; NativeError if the device has too little memory
 * @example
 * const config = presetConfig('d6')!;
 * const model = createModel(device, config, { B: 4, T: 64, purpose: 'training' });
 * initializeWeights(model, 42);
 */
export function createModel(device: Device, config: ModelConfig, sizes: ActivationSizes, sharding?: Sharding): Model {
  checkArguments({ device });
  checkConfig(config);
  const { layers, channels, heads, context } = config;
  checkGiven({ layers, channels, heads, context }, sizeRanges, {});
  checkDtype(config, device.dtype);
  const T = whole(1, context);
  checkGiven(sizes, { B: whole(1), T, purpose: ['training', 'inference'] }, { recompute: recomputeNames });
  const { elementType } = device;
  const weights = new ParameterArena(device, config, 'weights', elementType, elementType, sharding?.division);
  const masters = elementType === 'fp32' ? weights : fp32Copy(device, config, 'master weights', sharding);
  const activations = activationsOf(device, config, sizes);
  device.reserveWorkspace(modelScratch(device, config, sizes));
  const queryKeyTransform = queryKeyTransformOf(device, config);
  return { device, config, weights, masters, sharding, activations, queryKeyTransform };
}

/** Allocates one fp32 number per element of the selected parameters; with `sharding`, only for this rank's shares. */
export const fp32Copy = (
  device: Device,
  config: ModelConfig,
  name: string,
  sharding?: Sharding,
  selected = everyParameter,
): ParameterCopy =>
  sharding
    ? new ShardedParameters(device, config, name, sharding, selected)
    : new ParameterArena(device, config, name, 'fp32', 'fp32', undivided, selected);

function modelScratch(device: Device, config: ModelConfig, { B, T }: { B: number; T: number }): number {
  const { channels: C, heads: NH } = config;
  const N = B * T;
  const Vp = paddedVocabularySize(config);
  const isFp8 = device.dtype === 'fp8';
  const ofMlp = [
    { C, O: 4 * C },
    { C: 4 * C, O: C },
  ];
  const matmuls = [{ C, O: 3 * C }, { C, O: C }, ...ofMlp];
  // The head's last chunk has fewer rows, but may need more scratch than other chunks, because matmuls of other sizes split k differently.
  const chunk = Math.min(headChunk(device), N);
  const chunks = N % chunk === 0 ? [chunk] : [chunk, N % chunk];
  return Math.max(
    embeddingScratch(device, { B, T, C, V: config.vocabularySize }),
    normScratch(device, { N, C }),
    attentionScratch(device, { B, T, C, NH }),
    factorsScratch(device, { K: 3 }),
    ...matmuls.map((sizes) => matmulScratch(device, { N, ...sizes, gradients: true })),
    ...chunks.map((rows) => classifierScratch(device, { N: rows, C, Vp, gradients: true, fp8: isFp8 })),
    ...(isFp8 ? [...matmuls, { C, O: Vp }].map((sizes) => fp8QuantizeWeightScratch(device, sizes)) : []),
    // Other matmuls in FP8 need no more scratch: they are smaller, and weight gradients of attention's matmuls are not in FP8.
    ...(isFp8 ? ofMlp.map((sizes) => fp8MatmulScratch(device, { N, ...sizes, gradients: true })) : []),
  );
}

/** Rounds the master weights into the weights, unless both are the same memory. Call this after changing master weights. */
export function castWeights({ device, weights, masters }: Model): void {
  if (masters instanceof ShardedParameters) {
    masters.castInto(weights);
    return;
  }
  for (const kind of ['matrices', 'vectors'] as const) {
    const weight = weights[kind];
    const master = masters[kind];
    if (weight !== master)
      device.call('castWeights', { weight: weight.pointer, master: master.pointer, count: weight.count });
  }
}

/** Call before reading or replacing all weights. @throws UsageError if a step or an evaluation was not awaited */
export function checkIdle({ activations }: Model): void {
  if (activations.isBusy) throw usageError`a step or an evaluation of the model has not ended: await its Promise first`;
}

const filled = new WeakSet<Model>();

/** Call at each use of a model. @throws UsageError if nothing has filled the weights: every token would be equally likely */
export function checkFilled(model: Model): void {
  if (filled.has(model)) return;
  const gains = model.weights.get('lnfw').numbers();
  if (gains.every((gain) => gain === 0)) {
    throw usageError`the model's weights are zero: fill them with initializeWeights(), or with load() of what resolveWeights() returns`;
  }
  filled.add(model);
}
