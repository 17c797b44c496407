// Allocates the activations of a batch of up to B x T tokens, as activation-tables.ts lists them, in a few arenas.
import { ShapeError } from '../base/errors.ts';
import type { Device } from '../native/device.ts';
import { bytesOf, type ElementType, elementCount } from '../native/element-types.ts';
import { Tensor } from '../native/tensor.ts';
import {
  type ActivationSizes,
  type ActivationTensors,
  type Kind,
  mapTables,
  type Recompute,
  type Row,
  type Sizes,
} from './activation-tables.ts';
import type { ModelConfig } from './config.ts';
import { operandsOf } from './operands.ts';

/** All activations of one batch size, as tensors. */
export interface ActivationSet extends Sizes, ActivationTensors {
  readonly recompute: Recompute;
  /** Matrices with all their layouts (plain, rowwise FP8, columnwise FP8); norms and matmuls choose an op by the layouts. */
  readonly operands: ReturnType<typeof operandsOf>;
}

// Tensors share an arena because a driver rounds each allocation up to 2 MiB, which would waste 0.6 GB for d48's 400 tensors at batch 2.
// Each tensor starts on a multiple of `alignment` bytes.
const alignment = 256;

export const elementType = (row: Row, device: Device): ElementType =>
  row.type === 'activation' ? device.elementType : row.type;
const bytesInArena = (row: Row, device: Device): number =>
  Math.ceil((elementCount(row.shape) * bytesOf(elementType(row, device))) / alignment) * alignment;

export type Activations = ReturnType<typeof activationsOf>;

/** Allocates memory for the activations of up to B x T tokens. */
export function activationsOf(device: Device, config: ModelConfig, largest: ActivationSizes) {
  const rows: { readonly name: string; readonly row: Row; readonly kind: Kind; readonly start: number }[] = [];
  const ends = new Map<Kind, number>();
  mapTables(device, config, largest, (name, row, kind) => {
    const end = ends.get(kind) ?? 0;
    const start = row.sharesPrevious ? rows.at(-1)!.start : end;
    ends.set(kind, Math.max(end, start + bytesInArena(row, device)));
    return rows.push({ name, row, kind, start });
  });
  const arenas = new Map([...ends].map(([kind, bytes]) => [kind, device.allocate(bytes, kind)]));
  const tensorOf = ({ name, row, kind, start }: (typeof rows)[number]) =>
    new Tensor(arenas.get(kind)!, name, elementType(row, device), row.shape, start);
  const tensors = new Map(rows.map((row) => [row.name, tensorOf(row)]));
  const sets = new Map<string, ActivationSet>();
  const most = largest.B * largest.T;
  let lastTurn: Promise<unknown> = Promise.resolve();
  let turns = 0;
  const end = () => void turns--;
  return {
    /** Whether work that was passed to `inTurn` is still running. Until the work ends, it may change the weights. */
    get isBusy(): boolean {
      return turns > 0;
    },
    /** Runs `work` when all earlier `work` has ended, because all batches use the same activation memory. */
    inTurn<R>(work: () => Promise<R>): Promise<R> {
      turns++;
      const turn = lastTurn.then(work);
      // Only the returned Promise reports a failure of `work`. The next caller's work runs even after a failure.
      lastTurn = turn.then(end, end);
      return turn;
    },
    /** T of the largest batch: tokens of a sequence. */
    sequence: largest.T,
    rows: most,
    /**
     * The activations for a batch of B x T tokens, as tensors. All batch sizes use the same memory.
     * @throws ShapeError if B x T is over the number of tokens that the memory was allocated for
     */
    at(B: number, T: number): ActivationSet {
      const key = `${B}x${T}`;
      const known = sets.get(key);
      if (known) return known;
      if (B * T > most) {
        throw new ShapeError(
          `a batch of ${B} x ${T} tokens does not fit the model's activations, which hold ${most}: create the model for larger B or T`,
        );
      }
      const views = mapTables(device, config, { ...largest, B, T }, (name, { shape }) =>
        tensors.get(name)!.view(shape),
      );
      const set = { B, T, recompute: largest.recompute ?? 'none', ...views, operands: operandsOf(views) };
      sets.set(key, set);
      return set;
    },
  };
}
