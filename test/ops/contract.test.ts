// Contracts of ops, tested with arguments made from their cases: calls that are refused, and steps without an update.
import { expect, it } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Device } from '../../src/native/device.ts';
import { elementCount } from '../../src/native/element-types.ts';
import { Tensor } from '../../src/native/tensor.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { elementType, shapeOf } from '../../src/ops/cases/prepared-case.ts';
import { absentIn, parseDimension, sizeOf } from '../../src/ops/contract.ts';
import { enqueue } from '../../src/ops/enqueue.ts';
import { contracts } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

it.each([
  ['64', {}, 64],
  ['N', { N: 5 }, 5],
  ['3C', { C: 5 }, 15],
  ['S+1', { S: 5 }, 6],
  ['N', { N: 5.5 }, 5.5],
  ['>=T', { T: 5 }, 5],
  ['C/NH', { C: 48, NH: 3 }, 16],
  ['N/16', { N: 1 }, 1],
  ['N/16', { N: 16 }, 1],
  ['N/16', { N: 17 }, 2],
  ['N/512', { N: 1030 }, 3],
  ['N/16', {}, undefined],
  ['C/NH', { C: 48 }, undefined],
] as const)('%s of %j is %s', (text, sizes, size) => {
  expect(sizeOf(parseDimension(text), sizes)).toBe(size);
});

// In fp32 the weights are the masters. Cases give a tensor that is kept its partner's memory, as CUDA's kernels demand.
it.each([contracts.adamw, contracts.muonUpdate])('$name writes weights without reading them', ({ tensors }) => {
  expect(tensors.weight).toMatchObject({ access: 'kept', mayBe: ['master'] });
});

/** Sizes and scalars unlike those of the op's first case; tensors as null, as another shape, or as numbers of the first. */
type Change = Readonly<Record<string, number | null | readonly number[] | Int32Array>>;
type Values = (name: string, count: number) => ArrayLike<number> | undefined;

/** Calls an op, or a variant of it, and gives the tensors. */
function call(device: Device, bench: TensorBench, name: string, change: Change, valuesOf: Values = () => undefined) {
  const { variant, sizes: cases } = casesNamed(name);
  const decided = Object.entries(variant.when).filter(([, value]) => typeof value === 'number');
  const sizes = { ...cases[0], ...Object.fromEntries(decided), ...change } as Record<string, number>;
  const args: Record<string, Tensor | number | null> = { ...sizes };
  for (const [tensor, contract] of Object.entries(variant.op.tensors)) {
    const changed = change[tensor];
    args[tensor] = null;
    if (changed === null || (changed === undefined && absentIn(variant).includes(tensor))) continue;
    const shape = Array.isArray(changed) ? changed : shapeOf(contract, sizes);
    const values = changed instanceof Int32Array ? new Int32Array(elementCount(shape)) : undefined;
    values?.set(changed as Int32Array);
    const given = values ?? valuesOf(tensor, elementCount(shape));
    args[tensor] = bench.tensor(tensor, shape, given, elementType(device, contract));
  }
  if (args.master) args.weight = args.master;
  enqueue(device, variant.op, args);
  return Object.values(args).filter((value) => value instanceof Tensor);
}

const refused: readonly [op: string, change: Change, message: string][] = [
  ['adamw', { firstScalar: GPT2_STEP.GPT2_STEP_SCALARS - 1 }, ', got firstScalar = '],
  ['adamw', { firstScalar: GPT2_STEP.GPT2_STEP_TARGETS - 1 }, ', got firstScalar = '],
  ['attention_cached_forward', { C: 257, NH: 1 }, 'expected C / NH <= 256, got C = 257, NH = 1'],
  ['attention_cached_forward', { keys: [3, 2, 64, 16] }, 'keys [B,NH,S,C/NH] has C/NH = 16, but out has C = 128'],
  ['embedding_forward', { wpe: [3, 128] }, 'embedding_forward: wpe [>=S,C] has only 3 rows, but S = 64'],
  ['fp8_matmul_forward.gelu', { columnwise: null }, 'expected both columnwiseScale and columnwise, or neither'],
  ['fp8_matmul_forward.gelu', { columnwiseScale: null }, 'expected both columnwiseScale and columnwise, or neither'],
  ['fp8_matmul_forward.gelu', { inColumnwiseNorm: null }, 'expected both inColumnwiseNorm and columnwise, or neither'],
  ['fp8_transpose', { columnwise: [128, 63, 16] }, 'columnwise [C,N/16,16] has N/16 = 63, but values has N = 1024'],
  ['fp8_transpose', { columnwise: [128, 64, 8] }, 'columnwise [C,N/16,16] has 16 = 8, but must have 16'],
  ['fp8_transpose', { columnwiseScale: [3] }, 'columnwiseScale [N/512] has N/512 = 3, but values has N = 1024'],
  ['matmul_forward', { pre: [128, 384] }, 'expected pre exactly where activation == 1, got activation = 0'],
  ['matmul_forward', { activation: 1 }, 'expected pre exactly where activation == 1, got activation = 1'],
  ['matmul_forward', { activation: 2, residual: [128, 384] }, 'expected residual only where activation == 0'],
  ['matmul_forward', { activation: 3 }, 'expected activation >= 0 && activation <= 2, got activation = 3'],
  ['matmul_forward', { out: [128, 385] }, 'matmul_forward: out [N,O] has O = 385, but weight has O = 384'],
  ['matmul_backward_input', { activation: 2 }, 'expected activated exactly where activation == 2, got activation = 2'],
  ['norm_forward.rmsnorm', { out: null }, 'norm_forward: expected out != null || values != null'],
  ['norm_forward.rmsnorm', { bias: [128] }, 'norm_forward: expected both bias and mean, or neither'],
  ['norm_forward.rmsnorm', { scale: [128], norm: [128] }, 'norm_forward: expected both scale and values, or neither'],
  ['norm_forward.rmsnorm_fp8', { C: 8 }, 'norm_forward: expected values == null || C % 16 == 0, got C = 8'],
  ['norm_matmul_forward', { out: [4, 128] }, 'norm_matmul_forward: out [N,O] has O = 128, but weight has O = 384'],
  ['norm_matmul_forward.gelu', { pre: [5, 384] }, 'N = 5'],
  ['qk_norm_rotary_forward', { C: 21, NH: 1 }, 'expected C % (2 * NH) == 0, got C = 21, NH = 1'],
  ['qk_norm_rotary_forward', { S: 63 }, 'expected T <= S, got T = 64, S = 63'],
  ['qk_norm_rotary_backward', { queryFactor: 0 }, 'expected queryFactor != 0, got queryFactor = 0'],
  ['sample', { temperature: -1 }, 'expected temperature >= 0, got temperature = -1'],
  ['sample', { topK: -1 }, 'expected topK >= 0, got topK = -1'],
  ['sample', { topP: 1.5 }, 'expected topP <= 1, got topP = 1.5'],
  ['sample', { V: 1025 }, 'sample: expected V <= Vp, got V = 1025, Vp = 1024'],
];
/** Ids that a CPU refuses; a GPU gives NaN for them (every-op.ts). */
const unknownIds = [-1, 190, 2 ** 30].map((id) => ['embedding_forward', 'tokens', id] as const);
const unknown = [...unknownIds, ['cross_entropy', 'targets', -2], ['cross_entropy', 'targets', 53]] as const;

describeBackends('a contract', (device, kind) => {
  it.each(refused)('%s refuses %j', (op, change, message) => {
    using bench = new TensorBench(device());
    expect(() => call(device(), bench, op, change)).toThrow(message);
  });

  it.runIf(kind === 'cpu').each(unknown)('%s refuses among its %s %i', (op, tensor, id) => {
    using bench = new TensorBench(device());
    expect(() => call(device(), bench, op, { [tensor]: Int32Array.of(1, id) })).toThrow(String(id));
  });

  it.each<[op: string, sizes: Change]>([
    ['adamw', { count: 1003 }],
    ...['muon_momentum', 'muon_update'].flatMap((op): [string, Change][] => [
      [op, { rows: 31, columns: 17 }],
      [op, { rows: 16, columns: 64 }],
    ]),
  ])('a step without an update leaves every bit as it is: %s, %j', (op, sizes) => {
    using bench = new TensorBench(device());
    const random = new Random(3);
    const drawn = new Map<string, ArrayLike<number>>();
    const tensors = call(device(), bench, op, sizes, (name, count) => {
      const values = name === 'step' ? new Float32Array(count).fill(1) : random.normals(count);
      if (name === 'step') values[GPT2_STEP.GPT2_STEP_UPDATED] = 0;
      drawn.set(name, name === 'gradient' ? values.fill(Number.NaN) : values);
      return values;
    });
    for (const tensor of tensors) expect(floats(tensor), tensor.name).toEqual(drawn.get(tensor.name));
  });
});
