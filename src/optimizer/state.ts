// Applies a run's optimizers to a model: allocates their state, lays out their scalars in the step block, and enqueues updates of
// ranges of parameters. train/step/step-ops.ts chooses the order of the ranges.
import { checkSynchronous, checkValue, real } from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';
import type { ParameterCopy } from '../model/arena.ts';
import { fp32Copy, type Model } from '../model/model.ts';
import { type Parameter, type ParameterKind, parameterTable } from '../model/parameters.ts';
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type Tensor } from '../native/tensor.ts';
import { assignedRows, type OptimizerChoice, optimizersOf, scratchOf } from './assign.ts';
import type { Optimizer, UpdatePart } from './optimizer.ts';
import { type AllocatedRow, type Span, spansOf } from './spans.ts';

/** A row of optimizer state in device memory, such as AdamW's m, with the fields that checkpoints need. */
export interface StateCopy {
  readonly of: OptimizerState;
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly copy: ParameterCopy;
}

/** A range, in elements, of an arena: the buffer of a model's matrices or the buffer of its vectors. */
interface Range {
  readonly start: number;
  readonly count: number;
  /** The range's start in this rank's masters and gradients. With ZeRO-1, these hold only the rank's shares of the arena. */
  readonly inParts: number;
}

/** For each model, the optimizer state that was changed last, by a training step or by loading a checkpoint. */
const lastState = new WeakMap<Model, OptimizerState>();

/**
 * @param isSaved whether `optimizer` is about to be saved: it must then belong to the trainer that updated the model last
 * @returns the state that has these rows; undefined if `optimizer` is empty
 * @throws UsageError unless `optimizer` holds all state rows of one trainer of `model`, or none
 */
export function checkState(model: Model, optimizer: readonly StateCopy[], isSaved = false): OptimizerState | undefined {
  const owner = Array.isArray(optimizer) ? optimizer[0]?.of : undefined;
  const isWhole = owner?.model === model ? owner.holds(optimizer) : Array.isArray(optimizer) && optimizer.length === 0;
  if (!isWhole)
    throw usageError`the optimizer state is not of this model: give optimizerState.copies of a trainer of the model, or []`;
  if (!isSaved || !owner || (lastState.get(model) ?? owner) === owner) return owner;
  throw usageError`the optimizer state is not of the trainer that updated the model last: give that trainer's optimizerState.copies`;
}

const arenas = { matrix: 'matrices', vector: 'vectors' } as const;

/** The optimizers of a model, with their state. */
export class OptimizerState {
  readonly optimizers: readonly Optimizer[];
  readonly model: Model;
  readonly #rows: readonly AllocatedRow[];
  readonly #spans: readonly Span[];
  readonly #scratch: Tensor | undefined;

  constructor(model: Model, choice: OptimizerChoice) {
    const { device, config, sharding } = model;
    this.model = model;
    this.optimizers = optimizersOf(config, choice);
    this.#rows = assignedRows(config, choice).map((assigned) => ({
      ...assigned,
      copy: fp32Copy(device, config, 'optimizer state', sharding, assigned.selected),
    }));
    this.#spans = spansOf(config, choice, this.#rows, sharding?.division);
    const elements = scratchOf(device, config, choice);
    if (elements > 0) this.#scratch = allocateTensor(device, 'optimizer scratch', device.elementType, [elements]);
    const room = GPT2_STEP.GPT2_STEP_TARGETS - GPT2_STEP.GPT2_STEP_SCALARS;
    const count = this.scalarsAt(0).length;
    if (count > room)
      throw usageError`the optimizers have ${count} scalars, more than the ${room} of a step; take fewer optimizers, or optimizers with fewer scalars`;
  }

  /** All rows of state of all optimizers, for checkpoints. */
  get copies(): StateCopy[] {
    const table = parameterTable(this.model.config);
    return this.#rows.map(({ row: { name }, selected, copy }) => {
      return { of: this, name, parameters: table.filter(selected), copy };
    });
  }

  /** Whether `rows` are all rows of this state, each once. */
  holds(rows: readonly StateCopy[]): boolean {
    return rows.length === this.#rows.length && this.#rows.every(({ copy }) => rows.some((row) => row?.copy === copy));
  }

  /** Records that a step or a checkpoint has changed this state. State without rows needs no record: there is nothing to save. */
  changed(): void {
    if (this.#rows.length > 0) lastState.set(this.model, this);
  }

  /** The scalars of all optimizers in step `index` (from 0), in the order of the step block's floats from GPT2_STEP_SCALARS on. */
  scalarsAt(index: number): number[] {
    return this.optimizers.flatMap(({ name, scalars }) =>
      scalars.map((scalar) => {
        const value = scalar.at(index);
        checkValue(`the scalar ${scalar.name} of ${name} in step ${index}`, real(-(2 ** 127)), value);
        return value;
      }),
    );
  }

  /** Enqueues the updates of all matrices or all vectors, or of a range of them. @param step the step block */
  enqueue(step: Tensor, kind: ParameterKind, gradients: Tensor, range?: Range): void {
    const common = { device: this.model.device, step, scratch: this.#scratch };
    let first: number = GPT2_STEP.GPT2_STEP_SCALARS;
    for (const optimizer of this.optimizers) {
      const [start, names] = [first, optimizer.scalars.map(({ name }) => name)];
      const scalar = (name: string): number => {
        if (names.includes(name)) return start + names.indexOf(name);
        throw usageError`the optimizer ${optimizer.name} has no scalar ${JSON.stringify(name)}: it has ${names.join(', ') || 'none'}`;
      };
      const parts = this.parts(optimizer, kind, gradients, range);
      if (parts.length > 0)
        checkSynchronous(`enqueue of ${optimizer.name}`, optimizer.enqueue({ ...common, scalar }, parts));
      first += names.length;
    }
  }

  /** The tensors that `optimizer` updates in a range: one UpdatePart for each span. */
  parts(
    optimizer: Optimizer,
    kind: ParameterKind,
    gradients: Tensor,
    { start, count, inParts }: Range = { start: 0, count: gradients.count, inParts: 0 },
  ): UpdatePart[] {
    const { weights, masters } = this.model;
    const arena = arenas[kind];
    return this.#spans.flatMap((span) => {
      const from = Math.max(span.start, start);
      const to = Math.min(span.end, start + count);
      if (span.kind !== kind || span.optimizer !== optimizer || from >= to) return [];
      const shape = span.shape ?? [to - from];
      const held = inParts + from - start;
      const weight = weights[arena].view(shape, from);
      const state = span.rows.map(({ row, copy }, index) => {
        return [row.name, copy[arena].view(shape, held - span.gaps[index]!)] as const;
      });
      return {
        kind,
        weight,
        master: masters === weights ? weight : masters[arena].view(shape, held),
        gradient: gradients.view(shape, held),
        state: Object.fromEntries(state),
      };
    });
  }
}
