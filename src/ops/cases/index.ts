// All test cases of ops, by family, in the order of the model's ops.
import { adamwCases } from './adamw.ts';
import { attentionCases } from './attention.ts';
import { attentionCachedCases } from './attention-cached.ts';
import { classifierCases } from './classifier.ts';
import { crossEntropyCases } from './cross-entropy.ts';
import { embeddingCases } from './embedding.ts';
import { fp8MatmulCases } from './fp8-matmul.ts';
import { fp8QuantizeWeightCases } from './fp8-quantize-weight.ts';
import { fp8TransposeCases } from './fp8-transpose.ts';
import { geluCases } from './gelu.ts';
import { globalNormCases } from './global-norm.ts';
import { matmulCases } from './matmul.ts';
import { muonCases } from './muon.ts';
import { newtonSchulzCases } from './newton-schulz.ts';
import { normCases } from './norm.ts';
import { normMatmulCases } from './norm-matmul.ts';
import type { OpCases } from './op-case.ts';
import { qkNormRotaryCases } from './qk-norm-rotary.ts';
import { residualCases } from './residual.ts';
import { sampleCases } from './sample.ts';
import { softcapCases } from './softcap.ts';
import { streamSumCases } from './stream-sum.ts';

export const opCases: Readonly<Record<string, readonly OpCases[]>> = {
  embedding: embeddingCases,
  norm: normCases,
  matmul: matmulCases,
  'qk-norm-rotary': qkNormRotaryCases,
  attention: attentionCases,
  gelu: geluCases,
  residual: residualCases,
  'stream-sum': streamSumCases,
  'cross-entropy': crossEntropyCases,
  softcap: softcapCases,
  classifier: classifierCases,
  'fp8-quantize-weight': fp8QuantizeWeightCases,
  'fp8-transpose': fp8TransposeCases,
  'fp8-matmul': fp8MatmulCases,
  'global-norm': globalNormCases,
  adamw: adamwCases,
  muon: muonCases,
  'newton-schulz': newtonSchulzCases,
  'norm-matmul': normMatmulCases,
  'attention-cached': attentionCachedCases,
  sample: sampleCases,
};
