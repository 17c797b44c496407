// The interface of optimizers: the state for each parameter, the scalars for each step, and the ops of an update. Memory
// planning, checkpoints, ZeRO, saving and replay derive from this interface. Implementations: adamw.ts, muon.ts.
import type { Selection } from '../model/arena.ts';
import type { ParameterKind } from '../model/parameters.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';

/** A row of optimizer state, such as AdamW's m: for each selected parameter, a tensor of the parameter's shape, initially zero. */
export interface StateRow {
  /** Key in `UpdatePart.state` and prefix of tensors in optimizer.safetensors: "m" gives "m.wte.weight". */
  readonly name: string;
  /** Type in memory and in checkpoints. */
  readonly dtype: 'fp32';
  /** Selects the parameters that have this state, among those that the optimizer updates. */
  readonly parameters: Selection;
  /**
   * How an update may be divided. 'element': `enqueue` receives ranges that may begin and end inside a parameter. 'matrix':
   * `enqueue` receives whole matrices, each as [rows, columns]; a parameter may hold several (`Parameter.matrices`).
   */
  readonly granularity: 'element' | 'matrix';
}

/** A number that changes with the step. Ops read it from the step block in device memory, because a CUDA graph's arguments are fixed. */
export interface StepScalar {
  readonly name: string;
  /** The value in a step. @param step counted from 0 */
  at(step: number): number;
}

export type MatrixShape = readonly [rows: number, columns: number];

/** Tensors, all of one shape, that one update reads and writes. They cover a range of parameters or a single matrix. */
export interface UpdatePart {
  readonly kind: ParameterKind;
  readonly weight: Tensor;
  /** Master weights in fp32; the same memory as `weight` unless the device stores weights in bf16. */
  readonly master: Tensor;
  readonly gradient: Tensor;
  /** State tensors, by the name of their row: "m". */
  readonly state: Readonly<Record<string, Tensor>>;
}

/** Arguments of `Optimizer.enqueue` that are common to all parts of an update. */
export interface UpdateContext {
  readonly device: Device;
  /** The step block, floats in device memory. Ops multiply gradients by the block's CLIP, and change nothing if its UPDATED is 0. */
  readonly step: Tensor;
  /** The step block's index of the optimizer's scalar `name`; indices follow the order of `scalars`. @throws UsageError for another name */
  readonly scalar: (name: string) => number;
  /** Uninitialized memory of at least as many elements as the optimizer's `scratch` returned; absent if no optimizer needs scratch. */
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
   * Reserves the workspace that the optimizer's ops need to update any of `matrices`, each as [rows, columns]. These are the
   * matrices that have a state row of granularity 'matrix'.
   * @returns elements, in the device's type, of the scratch that the updates need; all optimizers of a run share the scratch
   */
  scratch?(device: Device, matrices: readonly MatrixShape[]): number;
  /**
   * Enqueues the ops that update master, weight and state of `parts`. A step may call `enqueue` several times, with different parts.
   * Every step must enqueue the same ops, because later steps do not call `enqueue`: they launch the recorded CUDA graph or, on a
   * CPU, repeat the recorded library calls. An `enqueue` that accesses host memory on a CPU is an exception: every step calls it.
   */
  enqueue(context: UpdateContext, parts: readonly UpdatePart[]): void;
}
