// The table of activations, and the arenas that hold them for a batch of up to B x T tokens. Activations that no later layer
// and no backward pass reads share memory between layers: all in inference, in training those that --recompute recomputes.
import { GPT2_FP8_FACTOR } from '../native/bindings.generated.ts';
import { bytesOf, type DeviceBuffer, type ElementType, elementCount, Tensor } from '../native/buffer.ts';
import type { Device, DeviceDescription } from '../native/device.ts';
import { architectureOf } from './architecture.ts';
import { type ModelConfig, paddedVocabularySize } from './config.ts';
import type { Fp8Copy } from './linear.ts';

/** Training keeps the activations of every layer for backward; inference those of the current layer. */
type Purpose = 'training' | 'inference';

/**
 * Activations that backward recomputes to save memory: none; fc and its activation, in GPT-2 half of a layer's, for one more
 * matmul; or all but the residual stream between layers, for one more forward pass.
 */
export const recomputeNames = ['none', 'gelu', 'block'] as const;
export type Recompute = (typeof recomputeNames)[number];

/**
 * Rows of logits in memory: the head processes tokens in chunks of this size. On the GPU each chunk reads and writes all of
 * wte's gradient and must fill every multiprocessor, so chunks are large: 3.3 GB for GPT-2's vocabulary in bf16.
 */
export function headChunk({ description, elementType }: DeviceTraits): number {
  if (description.library === 'cpu') return 1024;
  return elementType === 'bf16' ? 32768 : 8192;
}

/** Properties of a device that sizes depend on. */
export type DeviceTraits = Pick<Device, 'dtype' | 'elementType'> & {
  readonly description: Pick<DeviceDescription, 'library'>;
};

interface Sizes {
  /** Sequences in a batch. */
  readonly B: number;
  /** Tokens in a sequence. */
  readonly T: number;
}

/** A tensor of a table. */
export interface Row {
  readonly type: 'activation' | 'fp32' | 'fp8' | 'int32';
  readonly shape: readonly number[];
}

/** Rows by name; some only models with certain parts have. */
type Table = Readonly<Record<string, Row | undefined>>;

const activation = (...shape: number[]): Row => ({ type: 'activation', shape });
const statistics = (...shape: number[]): Row => ({ type: 'fp32', shape });
const fp8 = (...shape: number[]): Row => ({ type: 'fp8', shape });

/** The activations of a layer. */
function layerTable(config: ModelConfig, { B, T }: Sizes) {
  const { channels: C, heads: NH } = config;
  const { norm, queryKeyNorm, activation: activated } = architectureOf(config);
  return {
    ln1: activation(B, T, C),
    ...only(norm === 'layernorm', { ln1Mean: statistics(B, T) }),
    ln1Rstd: statistics(B, T),
    qkv: activation(B, T, 3 * C),
    ...only(queryKeyNorm === 'rmsnorm', { qkRstd: statistics(B, T, 2 * NH) }),
    attention: activation(B, T, C),
    lse: statistics(B, NH, T),
    /** The residual stream after attention. */
    residual2: activation(B, T, C),
    ln2: activation(B, T, C),
    ...only(norm === 'layernorm', { ln2Mean: statistics(B, T) }),
    ln2Rstd: statistics(B, T),
    /** The input of GELU; the squared ReLU's backward needs only its output. */
    ...only(activated === 'gelu', { fc: activation(B, T, 4 * C) }),
    activated: activation(B, T, 4 * C),
    /** The residual stream after the layer. */
    residual3: activation(B, T, C),
  } satisfies Table;
}

/** Rows that only some models have. */
const only = <T extends Table>(isIn: boolean, rows: T): Partial<T> => (isIn ? rows : {});

/** Whether each layer has its own memory for an activation. */
function isKept(name: string, purpose: Purpose, recompute: Recompute): boolean {
  if (purpose === 'inference') return false;
  if (recompute === 'block') return name === 'residual3';
  return recompute === 'none' || (name !== 'fc' && name !== 'activated');
}

/** Activations outside the layers. */
function modelTable(device: DeviceTraits, config: ModelConfig, { B, T }: Sizes) {
  const C = config.channels;
  const { norm, embeddingNorm } = architectureOf(config);
  return {
    tokens: { type: 'int32', shape: [B, T] },
    targets: { type: 'int32', shape: [B, T] },
    /** What the norm of the embedding reads. */
    ...only(embeddingNorm === 'rmsnorm', { unnormed: activation(B, T, C), embeddedRstd: statistics(B, T) }),
    /** The residual stream that the first layer reads. */
    embedded: activation(B, T, C),
    lnf: activation(B, T, C),
    ...only(norm === 'layernorm', { lnfMean: statistics(B, T) }),
    lnfRstd: statistics(B, T),
    /** A chunk of logits; in training their gradient replaces them. */
    logits: activation(Math.min(headChunk(device), B * T), paddedVocabularySize(config)),
    losses: statistics(B, T),
  } satisfies Table;
}

/** Gradients that go backward through the layers. */
function backwardTable({ channels: C }: ModelConfig, { B, T }: Sizes) {
  return {
    /** Gradient of the residual stream. */
    dresidual: activation(B, T, C),
    /** Gradient of another [B,T,C]: a layernorm's or attention's output. */
    dbranch: activation(B, T, C),
    dqkv: activation(B, T, 3 * C),
    dfc: activation(B, T, 4 * C),
  } satisfies Table;
}

/** Copies in FP8 that products read. The product that reads one follows the op that wrote it, so one set is for all layers. */
function fp8Table({ dtype }: DeviceTraits, config: ModelConfig, { B, T }: Sizes, purpose: Purpose) {
  const C = config.channels;
  return only(dtype === 'fp8', {
    /** The copy of a norm's output. */
    normed: fp8(B, T, C),
    normedScale: statistics(B, T),
    /** The copy of GELU's output; in backward that of dfc, which is written after the last read of GELU's. */
    ...only(architectureOf(config).activation === 'gelu', { wide: fp8(B, T, 4 * C), wideScale: statistics(B, T) }),
    /** With memory of its own: --recompute writes the others between the ops that write and read it. */
    ...only(purpose === 'training', { dresidual: fp8(B, T, C), dresidualScale: statistics(B, T) }),
    /** The weight of the current product; as large as the largest, the MLP's or the head's. */
    weight: fp8(Math.max(4 * C, paddedVocabularySize(config)), C),
    factors: statistics(GPT2_FP8_FACTOR.GPT2_FP8_FACTORS),
  });
}

/** A tensor for each row; optional rows have optional tensors. */
type TensorsOf<T> = { readonly [Name in keyof T]: Tensor };
type LayerActivations = TensorsOf<ReturnType<typeof layerTable>>;
type ModelActivations = TensorsOf<ReturnType<typeof modelTable>>;
type BackwardActivations = TensorsOf<ReturnType<typeof backwardTable>>;
type Fp8Tensors = TensorsOf<ReturnType<typeof fp8Table>>;

/** By what they are copies of; all are absent on a device of another dtype, dresidual also for inference. */
interface Fp8Copies {
  readonly normed?: Fp8Copy | undefined;
  /** The same memory as dfc; both are absent with squared ReLU. */
  readonly activated?: Fp8Copy | undefined;
  readonly dresidual?: Fp8Copy | undefined;
  readonly dfc?: Fp8Copy | undefined;
}

function copiesOf({ weight, factors, ...copies }: Fp8Tensors): Fp8Copies {
  const { normed, normedScale, wide, wideScale, dresidual, dresidualScale } = copies;
  const copy = (values: Tensor | undefined, scale: Tensor | undefined): Fp8Copy | undefined =>
    values && scale && weight && factors && { values, scale, weight: { values: weight, factors } };
  const ofWide = copy(wide, wideScale);
  return {
    normed: copy(normed, normedScale),
    activated: ofWide,
    dresidual: copy(dresidual, dresidualScale),
    dfc: ofWide,
  };
}

/** All activations of one batch size, as tensors. */
export interface ActivationSet extends Sizes {
  readonly recompute: Recompute;
  readonly model: ModelActivations;
  readonly layers: readonly LayerActivations[];
  /** Absent for inference. */
  readonly backward: BackwardActivations | undefined;
  readonly fp8: Fp8Copies;
}

// Tensors share an arena because a driver rounds each allocation up to 2 MiB: 0.6 GB for d48's 400 tensors at batch 2. Each
// starts on a multiple of this many bytes.
const alignment = 256;

/** The type of a row's tensor on a device. */
export const elementType = (row: Row, device: DeviceTraits): ElementType =>
  row.type === 'activation' ? device.elementType : row.type;
const bytesInArena = (row: Row, device: DeviceTraits): number =>
  Math.ceil((elementCount(row.shape) * bytesOf(elementType(row, device))) / alignment) * alignment;

/** Kinds of activations in the memory plan; each is one arena. */
type Kind = 'activations' | 'logits' | 'activation gradients' | 'FP8 copies';

/** The largest batch that activations hold, and their purpose. */
export interface ActivationSizes extends Sizes {
  readonly purpose: Purpose;
  /** Activations that backward recomputes instead of keeping them. Default none. */
  readonly recompute?: Recompute | undefined;
}

/** Bytes of each arena. */
export function activationBytes(
  device: DeviceTraits,
  config: ModelConfig,
  { B, T, purpose, recompute = 'none' }: ActivationSizes,
): Map<Kind, number> {
  const bytes = (row: Row) => bytesInArena(row, device);
  const sum = (table: Table, times: (name: string) => number) =>
    rowsOf(table).reduce((total, [name, row]) => total + bytes(row) * times(name), 0);
  const { logits, ...rest } = modelTable(device, config, { B, T });
  const layers = sum(layerTable(config, { B, T }), (name) => (isKept(name, purpose, recompute) ? config.layers : 1));
  const sizes = new Map<Kind, number>([
    ['activations', layers + sum(rest, () => 1)],
    ['logits', bytes(logits)],
  ]);
  if (purpose === 'training')
    sizes.set(
      'activation gradients',
      sum(backwardTable(config, { B, T }), () => 1),
    );
  const copies = sum(fp8Table(device, config, { B, T }, purpose), () => 1);
  if (copies > 0) sizes.set('FP8 copies', copies);
  return sizes;
}

/** Memory for the activations of up to B x T tokens. */
export class Activations {
  readonly #device: Device;
  readonly #config: ModelConfig;
  readonly #purpose: Purpose;
  readonly #largest: ActivationSet;
  readonly #fp8: Fp8Tensors;
  readonly #sets = new Map<string, ActivationSet>();
  #lastTurn: Promise<unknown> = Promise.resolve();

  constructor(device: Device, config: ModelConfig, { B, T, purpose, recompute = 'none' }: ActivationSizes) {
    this.#device = device;
    this.#config = config;
    this.#purpose = purpose;
    const arenas = new Map<Kind, { readonly buffer: DeviceBuffer; used: number }>();
    for (const [kind, bytes] of activationBytes(device, config, { B, T, purpose, recompute })) {
      arenas.set(kind, { buffer: device.allocate(bytes, kind), used: 0 });
    }
    const place = (name: string, row: Row, kind: Kind = 'activations'): Tensor => {
      const arena = arenas.get(kind)!;
      const tensor = new Tensor(arena.buffer, name, elementType(row, device), row.shape, arena.used);
      arena.used += bytesInArena(row, device);
      return tensor;
    };
    const sizes = { B, T };
    const rows = layerTable(config, sizes);
    const kept = (name: string) => isKept(name, purpose, recompute);
    const shared = mapTable(rows, (name, row) => (kept(name) ? undefined : place(`h.${name}`, row)));
    this.#fp8 = mapTable(fp8Table(device, config, sizes, purpose), (name, row) =>
      place(`fp8.${name}`, row, 'FP8 copies'),
    );
    this.#largest = {
      ...sizes,
      recompute,
      model: mapTable(modelTable(device, config, sizes), (name, row) =>
        place(name, row, name === 'logits' ? 'logits' : 'activations'),
      ),
      layers: Array.from({ length: config.layers }, (_, index) =>
        mapTable(rows, (name, row) => shared[name] ?? place(`h.${index}.${name}`, row)),
      ),
      backward:
        purpose === 'training'
          ? mapTable(backwardTable(config, sizes), (name, row) => place(name, row, 'activation gradients'))
          : undefined,
      fp8: copiesOf(this.#fp8),
    };
    this.#sets.set(`${B}x${T}`, this.#largest);
  }

  /**
   * Runs `work` after all earlier work has ended, so that callers do not overwrite each other's activations.
   */
  inTurn<R>(work: () => Promise<R>): Promise<R> {
    const turn = this.#lastTurn.then(work);
    // Only this caller sees the failure; the next turn still runs.
    this.#lastTurn = turn.catch(() => {});
    return turn;
  }

  /** Most tokens in a batch, B x T. */
  get rows(): number {
    return this.#largest.B * this.#largest.T;
  }

  /**
   * The activations of a batch of B x T, in the same memory.
   * @throws ShapeError if B x T tokens do not fit
   */
  at(B: number, T: number): ActivationSet {
    const key = `${B}x${T}`;
    const known = this.#sets.get(key);
    if (known) return known;
    const sizes = { B, T };
    const { recompute, model, layers, backward } = this.#largest;
    const reshape = <T extends Table>(table: T, tensors: TensorsOf<T>) =>
      mapTable(table, (name, row) => tensors[name].view(row.shape));
    const set: ActivationSet = {
      ...sizes,
      recompute,
      model: reshape(modelTable(this.#device, this.#config, sizes), model),
      layers: layers.map((layer) => reshape(layerTable(this.#config, sizes), layer)),
      backward: backward && reshape(backwardTable(this.#config, sizes), backward),
      fp8: copiesOf(reshape(fp8Table(this.#device, this.#config, sizes, this.#purpose), this.#fp8)),
    };
    this.#sets.set(key, set);
    return set;
  }
}

const rowsOf = <T extends Table>(table: T) => Object.entries(table) as [keyof T & string, Row][];

const mapTable = <T extends Table, V>(table: T, make: (name: keyof T & string, row: Row) => V) =>
  Object.fromEntries(rowsOf(table).map(([name, row]) => [name, make(name, row)])) as { readonly [K in keyof T]: V };
