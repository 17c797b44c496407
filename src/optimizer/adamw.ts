// AdamW (Loshchilov and Hutter 2019).
import { checkGiven } from '../checks/given.ts';
import { real } from '../checks/number.ts';
import { everyParameter } from '../model/arena.ts';
import { adamw } from '../ops/ops.generated.ts';
import type { Optimizer, StateRow, UpdateContext, UpdatePart } from './optimizer.ts';

const constants = { beta1: 0.9, beta2: 0.95, eps: 1e-8 } as const;

const row = <Name extends string>(name: Name) =>
  ({ name, dtype: 'fp32', parameters: everyParameter, granularity: 'element' }) satisfies StateRow;

/** 1 - beta^t, with t counted from 1. */
const correction = (name: 'beta1' | 'beta2') => ({
  name: `1 - ${name}^t`,
  at: (step: number) => 1 - constants[name] ** (step + 1),
});

/**
 * AdamW with betas 0.9 and 0.95 and eps 1e-8. Weight decay is decoupled and applies to matrices only.
 * @example const optimizer = new AdamW({ weightDecay: 0.1 });
 */
export class AdamW implements Optimizer {
  readonly name = 'adamw';
  /** First and second moments. */
  readonly rows = [row('m'), row('v')];
  readonly scalars = [correction('beta1'), correction('beta2')];
  readonly #weightDecay: number;

  constructor(options: { readonly weightDecay: number }) {
    checkGiven(options, { weightDecay: real(0) }, {});
    const { weightDecay } = options;
    this.#weightDecay = weightDecay;
  }

  issue({ device, step, firstScalar }: UpdateContext, parts: readonly UpdatePart[]): void {
    for (const { kind, state, ...tensors } of parts) {
      const weightDecay = kind === 'matrix' ? this.#weightDecay : 0;
      adamw(device, { ...tensors, m: state.m!, v: state.v!, step, firstScalar, ...constants, weightDecay });
    }
  }
}
