// Chooses the optimizers of a run from its options.
import { headMatrix, isValueTable } from '../model/parameters.ts';
import { AdamW, type AdamWOptions } from './adamw.ts';
import type { OptimizerChoice } from './assign.ts';
import { isBlockMatrix, Muon } from './muon.ts';
import type { IterationName } from './newton-schulz.ts';

export const optimizerNames = ['adamw', 'muon'] as const;

export interface OptimizerOptions extends AdamWOptions {
  readonly optimizer: (typeof optimizerNames)[number];
  readonly learningRate: number;
  /** Learning rate of wte and of value embeddings; default `learningRate`. */
  readonly embeddingLearningRate?: number | undefined;
  /** Learning rate of an untied head's matrix; default `learningRate`. */
  readonly headLearningRate?: number | undefined;
  readonly muonLearningRate: number;
  readonly muonMomentum: number;
  readonly muonMomentumWarmup: number;
  /** Weight decay of Muon's matrices; default `weightDecay`. */
  readonly muonWeightDecay?: number | undefined;
  readonly newtonSchulz: IterationName;
}

export function chooseOptimizer(options: OptimizerOptions): OptimizerChoice {
  const { weightDecay, beta1, beta2, eps, learningRate, muonLearningRate } = options;
  // An optimizer's rate is a multiple of the step's learning rate, so that one schedule scales all rates. With --lr 0 all are 0.
  const multiple = (rate: number) => (learningRate === 0 ? 0 : rate / learningRate);
  const adamwAt = (rate: number) => new AdamW({ weightDecay, beta1, beta2, eps, rate: multiple(rate) });
  const adamw = adamwAt(learningRate);
  const { embeddingLearningRate, headLearningRate } = options;
  const embedding = embeddingLearningRate === undefined ? adamw : adamwAt(embeddingLearningRate);
  const separate = new Map([
    ['wte', embedding],
    [headMatrix, headLearningRate === undefined ? adamw : adamwAt(headLearningRate)],
  ]);
  const { muonMomentum: momentum, muonMomentumWarmup: momentumWarmup, newtonSchulz } = options;
  const { muonWeightDecay = weightDecay } = options;
  const rate = multiple(muonLearningRate);
  const muon =
    options.optimizer === 'muon'
      ? new Muon({ rate, weightDecay: muonWeightDecay, momentum, momentumWarmup, newtonSchulz })
      : undefined;
  return (parameter) => {
    if (muon && isBlockMatrix(parameter)) return muon;
    return isValueTable(parameter) ? embedding : (separate.get(parameter.name) ?? adamw);
  };
}
