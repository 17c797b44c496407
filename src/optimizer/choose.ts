// Chooses the optimizers of a run from its options.
import { AdamW, type AdamWOptions } from './adamw.ts';
import type { OptimizerChoice } from './assign.ts';

export const chooseOptimizer = ({ weightDecay, beta1, beta2, eps }: AdamWOptions): OptimizerChoice =>
  new AdamW({ weightDecay, beta1, beta2, eps });
