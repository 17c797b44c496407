// The optimizer AdamW (Loshchilov and Hutter 2019); the op `adamw` computes an update.
import { checkGiven, factor, real } from '../base/checks/given.ts';
import { everyParameter } from '../model/arena.ts';
import { adamw } from '../ops/ops.generated.ts';
import type { Optimizer, StateRow, UpdateContext, UpdatePart } from './optimizer.ts';

export const adamwDefaults = { beta1: 0.9, beta2: 0.95, eps: 1e-8 } as const;
/** The largest beta. With a beta of 1, a moment and the bias correction that divides it would both stay 0. */
const largestBeta = 0.999999;
/** Allowed ranges. The least eps is above 0 in fp32 too: with eps 0, a weight without a gradient would be updated by 0 / 0. */
export const adamwRanges = { beta1: real(0, largestBeta), beta2: real(0, largestBeta), eps: real(1e-30) };

/** AdamW's options: beta1, beta2 and eps (`train --help` explains them), weight decay, and a factor of the learning rate. */
export interface AdamWOptions extends Partial<Record<keyof typeof adamwDefaults, number | undefined>> {
  readonly weightDecay: number;
  /** This optimizer's learning rate as a multiple of the learning rate in the step block. Default 1. */
  readonly rate?: number | undefined;
}

const row = <Name extends string>(name: Name) =>
  ({ name, dtype: 'fp32', parameters: everyParameter, granularity: 'element' }) satisfies StateRow;

/** The bias correction 1 - beta^t as a scalar of the step block; t counts steps from 1, `step` from 0. */
const correction = (name: string, beta: number) => ({
  name: `1 - ${name}^t`,
  at: (step: number) => 1 - beta ** (step + 1),
});

/**
 * AdamW, with betas 0.9 and 0.95 and eps 1e-8 by default. Weight decay is decoupled and applies to matrices only.
 * @example const optimizer = new AdamW({ weightDecay: 0.1, beta2: 0.99 });
 */
export class AdamW implements Optimizer {
  readonly name = 'adamw';
  readonly rows = [row('m'), row('v')];
  readonly scalars: Optimizer['scalars'];
  readonly #weightDecay: number;
  readonly #constants: Record<keyof typeof adamwDefaults | 'rate', number>;

  constructor(options: AdamWOptions) {
    checkGiven(options, { weightDecay: real(0) }, { ...adamwRanges, rate: factor });
    const { weightDecay, rate = 1 } = options;
    const { beta1 = adamwDefaults.beta1, beta2 = adamwDefaults.beta2, eps = adamwDefaults.eps } = options;
    this.scalars = [correction('beta1', beta1), correction('beta2', beta2)];
    this.#constants = { rate, beta1, beta2, eps };
    this.#weightDecay = weightDecay;
  }

  enqueue({ device, step, scalar }: UpdateContext, parts: readonly UpdatePart[]): void {
    // Index of the first bias correction in the step block; the second, 1 - beta2^t, follows.
    const firstScalar = scalar('1 - beta1^t');
    for (const { kind, state, ...tensors } of parts) {
      const weightDecay = kind === 'matrix' ? this.#weightDecay : 0;
      adamw(device, { ...tensors, m: state.m!, v: state.v!, step, firstScalar, ...this.#constants, weightDecay });
    }
  }
}
