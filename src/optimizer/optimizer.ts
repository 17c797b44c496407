// The interface of optimizers: the state for each parameter, the scalars for each step, and the ops of an update. Memory
// planning, checkpoints, ZeRO, saving and replay derive from it. Implementations: adamw.ts, muon.ts.
import type { Selection } from '../model/arena.ts';
import type { ParameterKind } from '../model/parameters.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';

/** Optimizer state: a tensor for each of some parameters, with the parameter's shape. It starts as zeros. */
export interface StateRow {
  /** Key in `UpdatePart.state` and prefix of tensors in optimizer.safetensors: "m" gives "m.wte.weight". */
  readonly name: string;
  /** Type in memory and in checkpoints. */
  readonly dtype: 'fp32';
  /** Selects, of the parameters that the optimizer updates, those that have this state. */
  readonly parameters: Selection;
  /**
   * How an update may be divided. 'element': `enqueue` receives ranges that may begin and end inside a parameter. 'matrix':
   * `enqueue` receives whole matrices, each as [rows, columns]; a parameter may hold several (`Parameter.matrices`).
   */
  readonly granularity: 'element' | 'matrix';
}

/** A value that ops read from the step block, because arguments of a recorded graph do not change. */
export interface StepScalar {
  readonly name: string;
  /** @param step counted from 0 */
  at(step: number): number;
}

export type MatrixShape = readonly [rows: number, columns: number];

/** Tensors of a range of parameters, or of one matrix; all have the same shape. */
export interface UpdatePart {
  readonly kind: ParameterKind;
  readonly weight: Tensor;
  /** fp32; the same memory as `weight` unless the device computes in bf16. */
  readonly master: Tensor;
  readonly gradient: Tensor;
  /** By row name. */
  readonly state: Readonly<Record<string, Tensor>>;
}

/** Arguments shared by the ops of an update. */
export interface UpdateContext {
  readonly device: Device;
  /** The step block. Ops multiply gradients by its CLIP and change nothing if UPDATED is 0. */
  readonly step: Tensor;
  /** The index in the step block of the optimizer's scalar with this name; indices follow the order of `scalars`. @throws UsageError */
  readonly scalar: (name: string) => number;
  /** Memory of the size that the optimizer's `scratch` returned, [elements], with any content; absent if that is 0. */
  readonly scratch?: Tensor | undefined;
}

/** Updates parameters from gradients. */
export interface Optimizer {
  readonly name: string;
  readonly rows: readonly StateRow[];
  readonly scalars: readonly StepScalar[];
  /** Selects the parameters that the optimizer can update. Default: all. */
  readonly accepts?: Selection;
  /**
   * Reserves the workspace that the optimizer's ops need to update any of these matrices, [rows, columns]. Only matrices with a
   * row of granularity 'matrix' are passed.
   * @returns elements, in the device's type, of the scratch that the updates need; all optimizers of a run share the scratch
   */
  scratch?(device: Device, matrices: readonly MatrixShape[]): number;
  /**
   * Enqueues the ops that update master, weight and state of these parts. It may be called several times in a step, each time
   * with other parts. It must enqueue the same ops every time, because a recorded graph calls it only once, and so does a CPU
   * unless it reads or writes a tensor.
   */
  enqueue(context: UpdateContext, parts: readonly UpdatePart[]): void;
}

/** Changes nothing, for a trainer that only computes gradients. */
export const noUpdate: Optimizer = { name: 'none', rows: [], scalars: [], enqueue() {} };
