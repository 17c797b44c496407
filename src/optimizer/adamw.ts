// AdamW (Loshchilov and Hutter 2019).
import { checkGiven, factor, real } from '../base/checks/given.ts';
import { everyParameter } from '../model/arena.ts';
import { adamw } from '../ops/ops.generated.ts';
import type { Optimizer, StateRow, UpdateContext, UpdatePart } from './optimizer.ts';

export const adamwDefaults = { beta1: 0.9, beta2: 0.95, eps: 1e-8 } as const;
/** With a beta of 1 a moment would stay 0, and it would be divided by its bias correction, also 0. */
const largestBeta = 0.999999;
/** The least eps is over 0 in fp32 too; with 0, the update of a weight without a gradient would be 0 / 0. */
export const adamwRanges = { beta1: real(0, largestBeta), beta2: real(0, largestBeta), eps: real(1e-30) };

/** The constants of AdamW; train --help explains them. */
export interface AdamWOptions extends Partial<Record<keyof typeof adamwDefaults, number | undefined>> {
  readonly weightDecay: number;
  /** The learning rate, as a multiple of the step's. Default 1. */
  readonly rate?: number | undefined;
}

const row = <Name extends string>(name: Name) =>
  ({ name, dtype: 'fp32', parameters: everyParameter, granularity: 'element' }) satisfies StateRow;

/** 1 - beta^t, with t counted from 1. */
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
    // The other correction follows.
    const firstScalar = scalar('1 - beta1^t');
    for (const { kind, state, ...tensors } of parts) {
      const weightDecay = kind === 'matrix' ? this.#weightDecay : 0;
      adamw(device, { ...tensors, m: state.m!, v: state.v!, step, firstScalar, ...this.#constants, weightDecay });
    }
  }
}
