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
  const { weightDecay, beta1, beta2, eps, learningRate, embeddingLearningRate, headLearningRate } = options;
  // An optimizer's rate is a multiple of the step's learning rate, so that one schedule scales all rates. With --lr 0 all are 0.
  const multiple = (rate: number) => (learningRate === 0 ? 0 : rate / learningRate);
  const adamwAt = (rate: number) => new AdamW({ weightDecay, beta1, beta2, eps, rate: multiple(rate) });
  const adamw = adamwAt(learningRate);
  const embedding = embeddingLearningRate === undefined ? adamw : adamwAt(embeddingLearningRate);
  const head = headLearningRate === undefined ? adamw : adamwAt(headLearningRate);
  const { muonMomentum: momentum, muonMomentumWarmup: momentumWarmup, newtonSchulz } = options;
  const ofMuon = { rate: multiple(options.muonLearningRate), weightDecay: options.muonWeightDecay ?? weightDecay };
  const muon = options.optimizer === 'muon' && new Muon({ ...ofMuon, momentum, momentumWarmup, newtonSchulz });
  return (parameter) => {
    if (muon && isBlockMatrix(parameter)) return muon;
    if (parameter.name === 'wte' || isValueTable(parameter)) return embedding;
    return parameter.name === headMatrix ? head : adamw;
  };
}
