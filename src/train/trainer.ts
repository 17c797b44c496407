// One optimizer step: micro-batches forward and backward, the gradient norm, AdamW. Owns what training adds to a model:
// gradients, moments, and the step block through which step values go in and loss and norm come out.
import type { Batch } from '../batches/loader.ts';
import { backward } from '../model/backward.ts';
import { forward } from '../model/forward.ts';
import { headForwardBackward } from '../model/head.ts';
import type { Model } from '../model/model.ts';
import { ParameterArena } from '../model/parameters.ts';
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type Tensor } from '../native/buffer.ts';
import { adamw } from '../ops/adamw.ts';
import { lossSum } from '../ops/cross-entropy.ts';
import { globalNorm, globalNormScratch } from '../ops/global-norm.ts';

export interface TrainerOptions {
  /** Sequences in a micro-batch. */
  readonly batch: number;
  /** Tokens in a sequence. */
  readonly sequence: number;
  /** Micro-batches in a step. */
  readonly accumulation: number;
  readonly weightDecay: number;
  /** Largest gradient norm; 0 clips nothing. */
  readonly gradientClip: number;
}

const beta1 = 0.9;
const beta2 = 0.95;
const eps = 1e-8;

export interface StepResult {
  /** Mean loss over the step's tokens, before the update. */
  readonly loss: number;
  /** Gradient norm before clipping. */
  readonly norm: number;
}

export class Trainer {
  readonly model: Model;
  readonly options: TrainerOptions;
  /** First moments. */
  readonly m: ParameterArena;
  /** Second moments. */
  readonly v: ParameterArena;
  readonly gradients: ParameterArena;
  readonly #step: Tensor;
  readonly #firstMicroBatch: { run(): void };
  readonly #nextMicroBatch: { run(): void };
  readonly #update: { run(): void };

  constructor(model: Model, options: TrainerOptions) {
    const { device, config } = model;
    this.model = model;
    this.options = options;
    this.gradients = new ParameterArena(device, config, 'gradients', device.gradientType, 'fp32');
    this.m = new ParameterArena(device, config, 'moments', 'fp32', 'fp32');
    this.v = new ParameterArena(device, config, 'moments', 'fp32', 'fp32');
    this.#step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
    const { matrices, vectors } = this.gradients;
    device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
    this.#firstMicroBatch = device.program(() => this.#issueMicroBatch({ accumulate: false }));
    this.#nextMicroBatch = device.program(() => this.#issueMicroBatch({ accumulate: true }));
    this.#update = device.program(() => this.#issueUpdate());
  }

  #issueMicroBatch({ accumulate }: { accumulate: boolean }): void {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { model } = this;
    const activations = model.activations.at(B, T);
    const scale = 1 / (B * T * accumulation);
    forward(model, activations);
    headForwardBackward(model, activations, this.gradients, { dloss: scale, accumulate });
    backward(model, activations, this.gradients, { accumulate });
    lossSum(model.device, { step: this.#step, losses: activations.model.losses, scale, accumulate });
  }

  #issueUpdate(): void {
    const { device, weights, masters } = this.model;
    const step = this.#step;
    const { matrices, vectors } = this.gradients;
    globalNorm(device, { step, matrices, vectors, maxNorm: this.options.gradientClip });
    for (const kind of ['matrices', 'vectors'] as const) {
      adamw(device, {
        weight: weights[kind],
        master: masters[kind],
        m: this.m[kind],
        v: this.v[kind],
        gradient: this.gradients[kind],
        step,
        beta1,
        beta2,
        eps,
        weightDecay: kind === 'matrices' ? this.options.weightDecay : 0,
      });
    }
  }

  /**
   * Does step `index` (counted from 0) with the micro-batches that `nextBatch` gives. Signals and timers get their turn
   * between micro-batches.
   */
  async step(index: number, learningRate: number, nextBatch: () => Batch): Promise<StepResult> {
    const { batch: B, sequence: T, accumulation } = this.options;
    const { device, activations } = this.model;
    const { tokens, targets } = activations.at(B, T).model;
    const values = new Float32Array(3);
    values[GPT2_STEP.GPT2_STEP_LEARNING_RATE] = learningRate;
    values[GPT2_STEP.GPT2_STEP_BETA1_CORRECTION] = 1 - beta1 ** (index + 1);
    values[GPT2_STEP.GPT2_STEP_BETA2_CORRECTION] = 1 - beta2 ** (index + 1);
    this.#step.write(values);
    for (let micro = 0; micro < accumulation; micro++) {
      const { inputs, targets: wanted } = nextBatch();
      tokens.write(inputs);
      targets.write(wanted);
      (micro === 0 ? this.#firstMicroBatch : this.#nextMicroBatch).run();
      await device.finished();
    }
    this.#update.run();
    await device.finished();
    const results = this.#step.readInto(new Float32Array(2), GPT2_STEP.GPT2_STEP_LOSS);
    return { loss: results[0]!, norm: results[1]! };
  }
}
