// Tensors for tests, and checks of gradients.
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import type { Device } from '../../src/native/device.ts';
import { Tensor } from '../../src/native/tensor.ts';
import { distance, floats, norm, Random, worstError } from '../../src/ops/cases/case-numbers.ts';
import { GuardedTensors } from '../../src/ops/cases/guarded-tensors.ts';
import { callingsOf } from '../../src/ops/cases/op-case.ts';
import { elementType, shapeOf } from '../../src/ops/cases/prepared-case.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { absentIn, workspaceOf } from '../../src/ops/contract.ts';
import { enqueue, nativeArguments } from '../../src/ops/enqueue.ts';
import type { OpArguments } from '../../src/ops/replacements.ts';
import { type ContractOf, type OpName, variantNamed } from '../../src/ops/variants.ts';

/** Guarded tensors of a test: at its end, no op has written past one of them. */
export class TensorBench extends GuardedTensors {
  /** Statistics, bias gradients, losses: fp32 in every dtype. */
  floats(name: string, shape: readonly number[], values?: ArrayLike<number>): Tensor {
    return this.tensor(name, shape, values, 'fp32');
  }

  /**
   * Calls an op, or a variant of it, and returns its tensors. Those that are not given are made in the shapes that the contract gives
   * for `sizes`, and filled with NaN.
   * @param sizes also scalars and flags
   * @param given values, tensors, or null for none, which leaves out those that are NULL with it
   */
  call<Op extends OpName>(
    name: Op,
    sizes: Readonly<Record<string, number>>,
    given: Partial<Record<TensorOf<Op>, Tensor | ArrayLike<number> | null>> = {},
  ): Record<TensorOf<Op>, Tensor> {
    const variant = variantNamed(name);
    const absent = absentIn(variant);
    const args: Record<string, unknown> = { ...variant.when, ...sizes };
    for (const [tensor, contract] of Object.entries(variant.op.tensors)) {
      const isAbsent = absent.includes(tensor) || (contract.together && args[contract.together] === null);
      const value = isAbsent ? null : given[tensor as TensorOf<Op>];
      const make = (values?: ArrayLike<number>) =>
        this.tensor(tensor, shapeOf(contract, sizes), values, elementType(this.device, contract));
      args[tensor] = value === null || value instanceof Tensor ? value : make(value);
    }
    this.device.reserveWorkspace(
      workspaceOf(this.device, variant.op, nativeArguments(this.device, variant.op, args as OpArguments)),
    );
    enqueue(this.device, variant.op, args as OpArguments);
    return args as Record<TensorOf<Op>, Tensor>;
  }

  override [Symbol.dispose](): void {
    // After a kernel's failure no memory of a GPU can be read.
    const overwritten = this.device.hasFailed ? [] : this.overwritten;
    this.close();
    expect(overwritten, 'tensors past whose end an op wrote').toEqual([]);
  }
}

type TensorOf<Op extends OpName> = keyof ContractOf<Op>['tensors'] & string;

/** A hash of all bytes of tensors: vitest takes seconds to compare a million numbers. */
export function hashOf(tensors: readonly Tensor[]): string {
  const hash = createHash('sha256');
  for (const tensor of tensors) hash.update(tensor.read());
  return hash.digest('hex');
}

/** ‖a - b‖ / ‖b‖ */
export const relativeError = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  distance(a, b) / Math.max(norm(b), 1e-30);

/** The norm of the errors under `limit` and the worst under `most`, with the figures in the message. */
export function expectClose(name: string, a: ArrayLike<number>, b: ArrayLike<number>, limit = 1e-4, most = limit) {
  expect(a.length, `${name}: count`).toBe(b.length);
  const relative = relativeError(a, b);
  const worst = worstError(a, b);
  expect(relative < limit && worst < most, `${name}: relative ${relative}, worst ${worst}, limit ${limit}`).toBe(true);
}

/** An op equals its formula at sizes that its cases lack, in every way to call it, within their bounds and closer ones. */
export async function expectFormula(
  device: Device,
  op: string,
  sizes: Readonly<Record<string, number>>,
  ...limits: [limit?: number, most?: number]
): Promise<void> {
  const cases = casesNamed(op);
  for (const calling of callingsOf(cases)) {
    for (const { name, values, wanted, isWithin } of await runCase(device, cases, sizes, calling)) {
      expect(isWithin, name).toBe(true);
      if (limits.length > 0) expectClose(name, values, wanted, ...limits);
    }
  }
}

/** Sum of a * b in double. */
export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let index = 0; index < a.length; index++) sum += a[index]! * b[index]!;
  return sum;
}

/** The cosine of the angle between two vectors. */
export const cosineOf = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

type GradientCheck = Readonly<
  Record<'step' | 'limit', number> & { input: Tensor; gradient: ArrayLike<number>; loss: () => number }
>;

/**
 * Checks a gradient against differences of the op's own forward along a random direction.
 *
 * A bound is what fp32 leaves, here with a step of 1e-2: each output is rounded by about 1e-7 of its size, so a loss L carries an
 * error of some 1e-7 |L| and the difference over 2 * step = 0.02 one of 1e-5 |L|; against a derivative along the gradient that is as
 * large as L or larger this stays under 1e-4, and 1e-3 leaves room for losses that are sums of terms larger than themselves.
 * @param loss runs forward and gives the scalar that the gradient belongs to
 */
export function checkGradient(name: string, { input, gradient, loss, step, limit }: GradientCheck): void {
  const random = new Random(name.length);
  const values = floats(input);
  const direction = random.normals(values.length);
  // Along the gradient itself as well, so that the derivative never is a small difference of large terms.
  const scale = 1 / Math.max(Math.sqrt(dot(gradient, gradient) / values.length), 1e-30);
  for (let index = 0; index < direction.length; index++) direction[index]! += gradient[index]! * scale;
  const shifted = (by: number): number => {
    const moved = Float32Array.from(values, (value, index) => value + by * direction[index]!);
    input.write(moved);
    return loss();
  };
  // Richardson: two central differences whose errors in step^2 cancel.
  const central = (by: number) => (shifted(by) - shifted(-by)) / (2 * by);
  const difference = (4 * central(step / 2) - central(step)) / 3;
  input.write(values);
  const derivative = dot(gradient, direction);
  const error = Math.abs(difference - derivative) / Math.abs(derivative);
  const figures = `derivative ${derivative}, difference ${difference}, error ${error}, limit ${limit}`;
  expect(error < limit, `${name}: ${figures}`).toBe(true);
}
