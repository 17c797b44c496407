// Enqueues the ops of a training step: micro-batches forward and backward, the gradient norm, the update. Allocates the memory
// that training needs beyond the model: gradients, optimizer state, and the step block (GPT2_STEP in cuda/gpt2.h).
import { bucketFrom, ParameterArena } from '../../model/arena.ts';
import { backward } from '../../model/backward.ts';
import { forward } from '../../model/forward.ts';
import { headForwardBackward, type Loss, lossForwardBackward } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';
import { GPT2_STEP, type Pointer } from '../../native/bindings.generated.ts';
import type { Communicator } from '../../native/communicator.ts';
import { allocateTensor, type Tensor } from '../../native/tensor.ts';
import { joinCollectives, recordCollectives } from '../../ops/collectives.ts';
import { globalNorm, globalNormScratch, lossSum } from '../../ops/ops.generated.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { OptimizerState } from '../../optimizer/state.ts';
import { type GradientSync, gradientSyncOf, type NormInputs } from './gradient-sync.ts';

export interface StepOptions {
  readonly batch: number;
  readonly sequence: number;
  /** Micro-batches in a step, on each rank. */
  readonly accumulation: number;
  readonly optimizer: OptimizerChoice;
  /** Largest gradient norm; 0 clips nothing. */
  readonly gradientClip: number;
  /** A loss instead of the default cross-entropy; not for models with a softcap. */
  readonly loss?: Loss | undefined;
  /** Whether ranks sum gradients during backward (true, the default) or after it; see gradient-sync.ts. */
  readonly overlapsBackward?: boolean | undefined;
}

export interface MicroBatch {
  /** Whether the micro-batch adds its gradients to the gradients of earlier micro-batches. */
  readonly accumulate: boolean;
  /** Whether gradients are summed over ranks; only with a step's last micro-batch. */
  readonly sums: boolean;
  /** Whether the micro-batch begins with the deferred update of the previous step. */
  readonly updates: boolean;
}

export type StepOps = ReturnType<typeof stepOpsOf>;

/** Functions that enqueue a step's ops. @param communicator connects the ranks of a step, each with separate micro-batches */
export function stepOpsOf(model: Model, options: StepOptions, communicator?: Communicator) {
  const { device, config, sharding } = model;
  const { batch: B, sequence: T, accumulation, loss } = options;
  /** Number of targets of all ranks in a step, including targets of -1. */
  const targets = B * T * accumulation * (communicator?.ranks ?? 1);
  const gradients = new ParameterArena(device, config, 'gradients', device.gradientType, 'fp32', sharding?.division);
  const optimizerState = new OptimizerState(model, options.optimizer);
  const gradientSync = communicator && gradientSyncOf(model, gradients, communicator, options.overlapsBackward ?? true);
  const step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
  const [matrixCount, vectorCount] = [gradients.matrices.count, gradients.vectors.count];
  device.reserveWorkspace(globalNormScratch(device, { matrixCount, vectorCount }));
  const update = updateOf(model, gradients, optimizerState, step, gradientSync);
  return {
    ...{ gradients, optimizerState, block: step, update },
    microBatch({ accumulate, sums, updates }: MicroBatch): void {
      const activations = model.activations.at(B, T);
      // Divide by the targets of all ranks, because gradients and losses are summed over ranks. The norm op corrects for targets of -1.
      const scale = 1 / targets;
      const sync = sums ? gradientSync : undefined;
      forward(model, activations, updates ? update.enqueueForForward() : undefined);
      if (loss) lossForwardBackward(model, activations, gradients, { loss, dloss: scale, accumulate });
      else headForwardBackward(model, activations, gradients, { dloss: scale, accumulate, step });
      backward(model, activations, gradients, { accumulate, layerDone: sync?.layerDone });
      lossSum(device, { step, losses: activations.model.losses, scale, accumulate });
      sync?.microBatchDone(step);
    },
    /** Computes the gradient norm. @param inputs default: the gradients of all ranks */
    norm(inputs: NormInputs = gradientSync?.normInputs ?? gradients): void {
      const { matrices, vectors, communicator } = inputs;
      const rows = matrices.shape.length === 1 ? matrices.view([1, matrices.count]) : matrices;
      const args = { step, matrices: rows, vectors, communicator: communicator?.handle ?? null };
      globalNorm(device, { ...args, targets, maxNorm: options.gradientClip });
    },
  };
}

/**
 * Updates all parameters by their optimizers. With ZeRO-1 each rank updates its share of every bucket, in the order in which a
 * forward pass needs the buckets. A bucket's weights are gathered while later buckets are updated and the next forward pass begins.
 */
function updateOf(
  model: Model,
  gradients: ParameterArena,
  optimizerState: OptimizerState,
  step: Tensor,
  gradientSync: GradientSync | undefined,
) {
  const { device, weights, sharding } = model;
  const own = gradientSync?.ownGradients;
  /** One event for each bucket, reached when the bucket's weights are gathered. */
  let events: readonly Pointer[] | undefined;
  const enqueue = (reached?: readonly Pointer[]): void => {
    optimizerState.enqueue(step, 'vector', gradients.vectors);
    if (!sharding || !own) {
      optimizerState.enqueue(step, 'matrix', gradients.matrices);
      return;
    }
    for (const [index, bucket] of sharding.layout.buckets.entries()) {
      const { count, inArena: start, inParts } = sharding.partOf(bucket);
      optimizerState.enqueue(step, 'matrix', own, { start, count, inParts });
      // The gather runs concurrently with work enqueued later.
      sharding.allGatherInto(weights.matrices, bucket);
      if (reached) recordCollectives(sharding.communicator, reached[index]!);
    }
  };
  return {
    /** Enqueues the whole update; work enqueued later runs after it. */
    enqueue(): void {
      enqueue();
      if (sharding && own) joinCollectives(sharding.communicator);
    },
    /**
     * Enqueues the update, then lets a forward pass begin once the embeddings are gathered. The forward pass calls the returned
     * function before each layer, in order, and before the head (with the number of layers), to wait for the weights.
     */
    enqueueForForward(): (layer: number) => void {
      if (!own) {
        enqueue();
        return () => {};
      }
      events ??= gradients.layout.buckets.map(() => device.createEvent());
      const reached = events;
      enqueue(reached);
      device.startAfter(reached[0]!);
      return (layer) => {
        const bucket = bucketFrom(gradients.layout, layer);
        if (bucket !== undefined) device.startAfter(reached[bucket]!);
      };
    },
  };
}
