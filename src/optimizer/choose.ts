// Chooses the optimizers of a run from its options.
import { AdamW } from './adamw.ts';
import type { OptimizerChoice } from './assign.ts';

export const chooseOptimizer = ({ weightDecay }: { readonly weightDecay: number }): OptimizerChoice =>
  new AdamW({ weightDecay });
