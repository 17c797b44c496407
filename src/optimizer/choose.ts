// Chooses the optimizers of a run from its options.
import { AdamW, type AdamWOptions } from './adamw.ts';
import type { OptimizerChoice } from './assign.ts';
import { isBlockMatrix, Muon } from './muon.ts';
import type { IterationName } from './newton-schulz.ts';

/** For --optimizer. */
export const optimizerNames = ['adamw', 'muon'] as const;

export interface OptimizerOptions extends AdamWOptions {
  readonly optimizer: (typeof optimizerNames)[number];
  readonly learningRate: number;
  readonly muonLearningRate: number;
  readonly muonMomentum: number;
  readonly newtonSchulz: IterationName;
}

export function chooseOptimizer(options: OptimizerOptions): OptimizerChoice {
  const { weightDecay, beta1, beta2, eps, learningRate, muonLearningRate } = options;
  const adamw = new AdamW({ weightDecay, beta1, beta2, eps });
  if (options.optimizer === 'adamw') return adamw;
  // Muon's rate rises and falls with the step's, which is 0 throughout if --lr is.
  const rate = learningRate === 0 ? 0 : muonLearningRate / learningRate;
  const { muonMomentum: momentum, newtonSchulz } = options;
  const muon = new Muon({ rate, weightDecay, momentum, newtonSchulz });
  return (parameter) => (isBlockMatrix(parameter) ? muon : adamw);
}
