// Enqueues the ops of a training step: micro-batches forward and backward, the gradient norm, the update. Allocates the memory
// that training needs beyond the model: gradients, optimizer state, and the step block (GPT2_STEP in cuda/gpt2.h).
import { ParameterArena } from '../../model/arena.ts';
import { backward } from '../../model/backward.ts';
import { forward } from '../../model/forward.ts';
import { headForwardBackward, type Loss, lossForwardBackward } from '../../model/head.ts';
import type { Model } from '../../model/model.ts';
import { GPT2_STEP } from '../../native/bindings.generated.ts';
import type { Communicator } from '../../native/communicator.ts';
import { allocateTensor, type Tensor } from '../../native/tensor.ts';
import { globalNorm, globalNormScratch, lossSum } from '../../ops/ops.generated.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { OptimizerState } from '../../optimizer/state.ts';
import { GradientSync, type NormInputs } from './gradient-sync.ts';
import { Update } from './update.ts';

export interface StepOptions {
  readonly batch: number;
  readonly sequence: number;
  /** Micro-batches in a step, on each rank. */
  readonly accumulation: number;
  readonly optimizer: OptimizerChoice;
  /** Largest gradient norm; 0 clips nothing. */
  readonly gradientClip: number;
  /** In place of cross-entropy; models with a softcap take none. Default cross-entropy. */
  readonly loss?: Loss | undefined;
  /** Whether several ranks sum gradients during backward or after it; see gradient-sync.ts. Default true. */
  readonly overlapsBackward?: boolean | undefined;
}

export interface MicroBatch {
  /** Whether its gradients are added to earlier micro-batches' gradients. */
  readonly accumulate: boolean;
  /** Whether gradients are summed over ranks, as after the last micro-batch. */
  readonly sums: boolean;
  /** Whether it begins with the update of the previous step. */
  readonly updates: boolean;
}

export class StepOps {
  readonly gradients: ParameterArena;
  readonly optimizerState: OptimizerState;
  readonly block: Tensor;
  readonly update: Update;
  readonly #model: Model;
  readonly #options: StepOptions;
  /** Targets of all ranks in a step, including targets of -1. */
  readonly #targets: number;
  readonly #gradientSync: GradientSync | undefined;

  /** @param communicator connects the ranks that share a step, each with separate micro-batches */
  constructor(model: Model, options: StepOptions, communicator?: Communicator) {
    const { device, config, sharding } = model;
    this.#model = model;
    this.#options = options;
    this.#targets = options.batch * options.sequence * options.accumulation * (communicator?.ranks ?? 1);
    const { gradientType } = device;
    this.gradients = new ParameterArena(device, config, 'gradients', gradientType, 'fp32', sharding?.division);
    this.optimizerState = new OptimizerState(model, options.optimizer);
    if (communicator) {
      this.#gradientSync = new GradientSync(model, this.gradients, communicator, options.overlapsBackward ?? true);
    }
    this.block = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
    const { gradients, optimizerState } = this;
    const [matrixCount, vectorCount] = [gradients.matrices.count, gradients.vectors.count];
    device.reserveWorkspace(globalNormScratch(device, { matrixCount, vectorCount }));
    this.update = new Update({ model, gradients, optimizerState, step: this.block }, this.#gradientSync);
  }

  microBatch({ accumulate, sums, updates }: MicroBatch): void {
    const { batch: B, sequence: T } = this.#options;
    const model = this.#model;
    const activations = model.activations.at(B, T);
    // The gradients and losses of all ranks are summed. The norm multiplies both if targets are -1.
    const scale = 1 / this.#targets;
    const sync = sums ? this.#gradientSync : undefined;
    forward(model, activations, updates ? this.update.enqueueForForward() : undefined);
    const { loss } = this.#options;
    if (loss) lossForwardBackward(model, activations, this.gradients, { loss, dloss: scale, accumulate });
    else headForwardBackward(model, activations, this.gradients, { dloss: scale, accumulate, step: this.block });
    backward(model, activations, this.gradients, { accumulate, layerDone: sync?.layerDone });
    lossSum(model.device, { step: this.block, losses: activations.model.losses, scale, accumulate });
    sync?.microBatchDone(this.block);
  }

  /** @param inputs default: the gradients of all ranks */
  norm(inputs: NormInputs = this.#gradientSync?.normInputs ?? this.gradients): void {
    const { matrices, vectors, communicator } = inputs;
    const rows = matrices.shape.length === 1 ? matrices.view([1, matrices.count]) : matrices;
    const args = { step: this.block, matrices: rows, vectors, communicator: communicator?.handle ?? null };
    globalNorm(this.#model.device, { ...args, targets: this.#targets, maxNorm: this.#options.gradientClip });
  }
}
