// Made from cuda/gpt2.h by scripts/generate (npm run generate). Do not edit.
// Every op: its contract as data, and a function that checks its arguments against the contract and calls the library.
import type { Pointer } from '../native/bindings.generated.ts';
import type { Tensor } from '../native/tensor.ts';
import type { Device } from '../native/device.ts';
import { type OpContract, scratch } from './contract.ts';
import { enqueue } from './enqueue.ts';

export const contracts = {
  embeddingForward: {
    name: 'embeddingForward',
    symbol: 'gpt2_embedding_forward',
    formula: "out[b,t,:] = wte[id,:] + wpe[p,:]",
    tensors: {
      out: { access: '=', type: 'element', shape: ['B', 'T', 'C'] },
      tokens: { access: 'read', type: 'int32', shape: ['B', 'T'], below: 'V', isOptional: true, where: { argument: 'positions', operator: '==', value: null, orNull: false } },
      texts: { access: 'read', type: 'int32', shape: ['B', 'S+1'], isOptional: true, where: { argument: 'positions', operator: '!=', value: null, orNull: false } },
      positions: { access: 'read', type: 'int32', shape: ['B'], isOptional: true },
      wte: { access: 'read', type: 'element', shape: ['>=V', 'C'], by: 'tokens' },
      wpe: { access: 'read', type: 'element', shape: ['>=S', 'C'], isOptional: true },
    },
    sizes: ['B', 'T', 'S', 'C', 'V'],
    scalars: [],
    flags: [],
    relations: [{ text: 'positions != null || S == T', holds: ({ positions, S, T }: { positions: Pointer | null; S: number; T: number }) => positions !== null || S === T }],
  },
  embeddingBackward: {
    name: 'embeddingBackward',
    symbol: 'gpt2_embedding_backward',
    formula: "dwte[v,:] += sum of dout[b,t,:] over tokens[b,t] = v, in an order that depends only on the tokens; dwpe[t,:] (=|+=) sum over b of dout[b,t,:]",
    tensors: {
      dwte: { access: '+=', type: 'gradient', shape: ['>=V', 'C'], by: 'tokens' },
      dwpe: { access: 'accumulate', type: 'gradient', shape: ['>=T', 'C'], isOptional: true },
      dout: { access: 'read', type: 'element', shape: ['B', 'T', 'C'] },
      tokens: { access: 'read', type: 'int32', shape: ['B', 'T'], below: 'V' },
    },
    sizes: ['B', 'T', 'C', 'V'],
    scalars: [],
    flags: ['accumulate'],
    relations: [],
    workspace: ({ B, T, C, V }: { B: number; T: number; C: number; V: number }) => ({ name: 'embeddingScratch', sizes: { B, T, C, V } }),
  },
  normForward: {
    name: 'normForward',
    symbol: 'gpt2_norm_forward',
    formula: "out = (in - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(population variance + eps); or in RMSNorm out = in * rstd * weight, rstd = 1/sqrt(mean of in^2 + eps)",
    tensors: {
      out: { access: '=', type: 'element', shape: ['N', 'C'], isOptional: true },
      values: { access: '=', type: 'fp8', shape: ['N', 'C'], isOptional: true },
      scale: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      norm: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      mean: { access: '=', type: 'fp32', shape: ['N'], isOptional: true },
      rstd: { access: '=', type: 'fp32', shape: ['N'] },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      weight: { access: 'read', type: 'element', shape: ['C'] },
      bias: { access: 'read', type: 'element', shape: ['C'], isOptional: true, together: 'mean' },
    },
    sizes: ['N', 'C'],
    scalars: ['eps'],
    flags: [],
    relations: [{ text: 'out != null || values != null', holds: ({ out, values }: { out: Pointer | null; values: Pointer | null }) => out !== null || values !== null }, { text: 'eps >= 0', holds: ({ eps }: { eps: number }) => eps >= 0 }, { text: 'values == null || C % 16 == 0', holds: ({ values, C }: { values: Pointer | null; C: number }) => values === null || C % 16 === 0 }],
  },
  normBackward: {
    name: 'normBackward',
    symbol: 'gpt2_norm_backward',
    formula: "With g = dout * weight and normalized = (in - mean) * rstd, `mean` and mean(g) 0 in RMSNorm: din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, the residual stream's gradient; dweight (=|+=) column sums of dout * normalized; dbias (=|+=) column sums of dout",
    tensors: {
      din: { access: '=', type: 'element', shape: ['N', 'C'], mayBe: ['dout', 'dresidual'] },
      values: { access: '=', type: 'fp8', shape: ['N', 'C'], isOptional: true },
      scale: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      norm: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      dweight: { access: 'accumulate', type: 'fp32', shape: ['C'] },
      dbias: { access: 'accumulate', type: 'fp32', shape: ['C'], isOptional: true, together: 'mean' },
      dout: { access: 'read', type: 'element', shape: ['N', 'C'] },
      dresidual: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      weight: { access: 'read', type: 'element', shape: ['C'] },
      mean: { access: 'read', type: 'fp32', shape: ['N'], isOptional: true },
      rstd: { access: 'read', type: 'fp32', shape: ['N'] },
    },
    sizes: ['N', 'C'],
    scalars: [],
    flags: ['accumulate'],
    relations: [{ text: 'values == null || C % 16 == 0', holds: ({ values, C }: { values: Pointer | null; C: number }) => values === null || C % 16 === 0 }],
    workspace: ({ N, C }: { N: number; C: number }) => ({ name: 'normScratch', sizes: { N, C } }),
  },
  matmulForward: {
    name: 'matmulForward',
    symbol: 'gpt2_matmul_forward',
    formula: "out = activation(in * weight^T + bias) + residual",
    tensors: {
      out: { access: '=', type: 'element', shape: ['N', 'O'] },
      pre: { access: '=', type: 'element', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 1, orNull: false } },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      weight: { access: 'read', type: 'element', shape: ['O', 'C'] },
      bias: { access: 'read', type: 'element', shape: ['O'], isOptional: true },
      residual: { access: 'read', type: 'element', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 0, orNull: true } },
    },
    sizes: ['N', 'C', 'O'],
    scalars: ['activation'],
    flags: [],
    relations: [{ text: 'activation >= 0 && activation <= 2', holds: ({ activation }: { activation: number }) => activation >= 0 && activation <= 2 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'matmulScratch', sizes: { N, C, O, gradients: 0 } }),
  },
  matmulBackwardInput: {
    name: 'matmulBackwardInput',
    symbol: 'gpt2_matmul_backward_input',
    formula: "din[n,c] = (dout * weight)[n,c] f[n,c], with the derivative f of the activation before the layer: gelu'(pre), or 2 sqrt(activated)",
    tensors: {
      din: { access: '=', type: 'element', shape: ['N', 'C'] },
      dout: { access: 'read', type: 'element', shape: ['N', 'O'] },
      weight: { access: 'read', type: 'element', shape: ['O', 'C'] },
      pre: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '==', value: 1, orNull: false } },
      activated: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '==', value: 2, orNull: false } },
    },
    sizes: ['N', 'C', 'O'],
    scalars: ['activation'],
    flags: [],
    relations: [{ text: 'activation >= 0 && activation <= 2', holds: ({ activation }: { activation: number }) => activation >= 0 && activation <= 2 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'matmulScratch', sizes: { N, C, O, gradients: 0 } }),
  },
  matmulBackwardWeight: {
    name: 'matmulBackwardWeight',
    symbol: 'gpt2_matmul_backward_weight',
    formula: "dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout",
    tensors: {
      dweight: { access: 'accumulate', type: 'gradient', shape: ['O', 'C'] },
      dbias: { access: 'accumulate', type: 'fp32', shape: ['O'], isOptional: true },
      dout: { access: 'read', type: 'element', shape: ['N', 'O'] },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
    },
    sizes: ['N', 'C', 'O'],
    scalars: [],
    flags: ['accumulate'],
    relations: [],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'matmulScratch', sizes: { N, C, O, gradients: 1 } }),
  },
  qkNormRotaryForward: {
    name: 'qkNormRotaryForward',
    symbol: 'gpt2_qk_norm_rotary_forward',
    formula: "Normalizes and rotates each head's q and k in place",
    tensors: {
      qkv: { access: 'updated', type: 'element', shape: ['B', 'T', '3C'], columns: '2C' },
      rstd: { access: '=', type: 'fp32', shape: ['B', 'T', '2NH'], isOptional: true },
      values: { access: '=', type: 'element', shape: ['B', 'T', 'C'], isOptional: true, together: 'valueFactors' },
      rotations: { access: 'read', type: 'fp32', shape: ['S', 'C/NH'] },
      positions: { access: 'read', type: 'int32', shape: ['B'], isOptional: true },
      valueFactors: { access: 'read', type: 'element', shape: ['2'], isOptional: true },
      embedded: { access: 'read', type: 'element', shape: ['B', 'T', 'C'], isOptional: true, where: { argument: 'valueFactors', operator: '!=', value: null, orNull: true } },
    },
    sizes: ['B', 'T', 'S', 'C', 'NH'],
    scalars: ['eps', 'queryFactor'],
    flags: [],
    relations: [{ text: 'C % (2 * NH) == 0', holds: ({ C, NH }: { C: number; NH: number }) => C % (2 * NH) === 0 }, { text: 'T <= S', holds: ({ T, S }: { T: number; S: number }) => T <= S }, { text: 'eps >= 0', holds: ({ eps }: { eps: number }) => eps >= 0 }],
  },
  qkNormRotaryBackward: {
    name: 'qkNormRotaryBackward',
    symbol: 'gpt2_qk_norm_rotary_backward',
    formula: "Turns the gradient of forward's result `qkv` into the gradient of forward's input, in place; for v only with value_factors",
    tensors: {
      dqkv: { access: 'updated', type: 'element', shape: ['B', 'T', '3C'], columns: '2C' },
      dvalueFactors: { access: 'accumulate', type: 'fp32', shape: ['2'], isOptional: true, together: 'valueFactors' },
      dembedded: { access: '=', type: 'element', shape: ['B', 'T', 'C'], isOptional: true, together: 'embedded' },
      qkv: { access: 'read', type: 'element', shape: ['B', 'T', '3C'], columns: '2C' },
      rstd: { access: 'read', type: 'fp32', shape: ['B', 'T', '2NH'], isOptional: true },
      rotations: { access: 'read', type: 'fp32', shape: ['>=T', 'C/NH'] },
      valueFactors: { access: 'read', type: 'element', shape: ['2'], isOptional: true },
      values: { access: 'read', type: 'element', shape: ['B', 'T', 'C'], isOptional: true, together: 'valueFactors' },
      embedded: { access: 'read', type: 'element', shape: ['B', 'T', 'C'], isOptional: true, where: { argument: 'valueFactors', operator: '!=', value: null, orNull: true } },
    },
    sizes: ['B', 'T', 'C', 'NH'],
    scalars: ['queryFactor'],
    flags: ['accumulate'],
    relations: [{ text: 'C % (2 * NH) == 0', holds: ({ C, NH }: { C: number; NH: number }) => C % (2 * NH) === 0 }, { text: 'queryFactor != 0', holds: ({ queryFactor }: { queryFactor: number }) => queryFactor !== 0 }],
    workspace: ({  }: {  }) => ({ name: 'factorsScratch', sizes: { K: 2 } }),
  },
  attentionForward: {
    name: 'attentionForward',
    symbol: 'gpt2_attention_forward',
    formula: "For each head, softmax(q*k^T/sqrt(HS))*v, where a query t attends to positions first[b,t] to t; to 0 to t if `first` is NULL",
    tensors: {
      out: { access: '=', type: 'element', shape: ['B', 'T', 'C'] },
      lse: { access: '=', type: 'fp32', shape: ['B', 'NH', 'T'] },
      qkv: { access: 'read', type: 'element', shape: ['B', 'T', '3C'] },
      first: { access: 'read', type: 'int32', shape: ['B', 'T'], isOptional: true },
    },
    sizes: ['B', 'T', 'C', 'NH'],
    scalars: [],
    flags: [],
    relations: [{ text: 'C % NH == 0', holds: ({ C, NH }: { C: number; NH: number }) => C % NH === 0 }],
    workspace: ({ B, T, C, NH }: { B: number; T: number; C: number; NH: number }) => ({ name: 'attentionScratch', sizes: { B, T, C, NH } }),
  },
  attentionBackward: {
    name: 'attentionBackward',
    symbol: 'gpt2_attention_backward',
    formula: "With p = exp(q*k^T/sqrt(HS) - lse) where a query attends to a key, else 0: dv = p^T * dout; ds[t,s] = p[t,s] ((dout * v^T)[t,s] - sum of dout[t] out[t]) / sqrt(HS); dq = ds * k; dk = ds^T * q",
    tensors: {
      dqkv: { access: '=', type: 'element', shape: ['B', 'T', '3C'] },
      dout: { access: 'read', type: 'element', shape: ['B', 'T', 'C'] },
      out: { access: 'read', type: 'element', shape: ['B', 'T', 'C'] },
      qkv: { access: 'read', type: 'element', shape: ['B', 'T', '3C'] },
      lse: { access: 'read', type: 'fp32', shape: ['B', 'NH', 'T'] },
      first: { access: 'read', type: 'int32', shape: ['B', 'T'], isOptional: true },
    },
    sizes: ['B', 'T', 'C', 'NH'],
    scalars: [],
    flags: [],
    relations: [{ text: 'C % NH == 0', holds: ({ C, NH }: { C: number; NH: number }) => C % NH === 0 }],
    workspace: ({ B, T, C, NH }: { B: number; T: number; C: number; NH: number }) => ({ name: 'attentionScratch', sizes: { B, T, C, NH } }),
  },
  geluForward: {
    name: 'geluForward',
    symbol: 'gpt2_gelu_forward',
    formula: "GELU (Hendrycks and Gimpel 2016) in tanh form, out = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
    tensors: {
      out: { access: '=', type: 'element', shape: ['count'] },
      in: { access: 'read', type: 'element', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: [],
    flags: [],
    relations: [],
  },
  geluBackward: {
    name: 'geluBackward',
    symbol: 'gpt2_gelu_backward',
    formula: "din = dout * gelu'(in)",
    tensors: {
      din: { access: '=', type: 'element', shape: ['count'], mayBe: ['dout'] },
      dout: { access: 'read', type: 'element', shape: ['count'] },
      in: { access: 'read', type: 'element', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: [],
    flags: [],
    relations: [],
  },
  residualForward: {
    name: 'residualForward',
    symbol: 'gpt2_residual_forward',
    formula: "out = a + b",
    tensors: {
      out: { access: '=', type: 'element', shape: ['count'], mayBe: ['a', 'b'] },
      a: { access: 'read', type: 'element', shape: ['count'] },
      b: { access: 'read', type: 'element', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: [],
    flags: [],
    relations: [],
  },
  softcapForward: {
    name: 'softcapForward',
    symbol: 'gpt2_softcap_forward',
    formula: "Limits logits (Gemma Team 2024), here by an algebraic sigmoid: out = cap * in / sqrt(in^2 + cap^2)",
    tensors: {
      out: { access: '=', type: 'element', shape: ['count'], mayBe: ['in'] },
      in: { access: 'read', type: 'element', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: ['cap'],
    flags: [],
    relations: [{ text: 'cap > 0', holds: ({ cap }: { cap: number }) => cap > 0 }],
  },
  streamSumForward: {
    name: 'streamSumForward',
    symbol: 'gpt2_stream_sum_forward',
    formula: "The input of a layer: out = factors[0] (in + factors[2] skip) + factors[1] embedded, with `in` the residual stream, `skip` the output of an earlier layer, 0 if NULL, and `embedded` the input of the first layer",
    tensors: {
      out: { access: '=', type: 'element', shape: ['N', 'C'] },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      skip: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true },
      embedded: { access: 'read', type: 'element', shape: ['N', 'C'] },
      factors: { access: 'read', type: 'element', shape: ['3'] },
    },
    sizes: ['N', 'C'],
    scalars: [],
    flags: [],
    relations: [],
  },
  streamSumBackward: {
    name: 'streamSumBackward',
    symbol: 'gpt2_stream_sum_backward',
    formula: "din = factors[0] dout + later_factors[0] later_factors[2] later, the gradients of `in` as the residual stream of this layer and as the skip of a later layer, whose dout is `later`",
    tensors: {
      din: { access: '=', type: 'element', shape: ['N', 'C'], mayBe: ['dout', 'later'] },
      values: { access: '=', type: 'fp8', shape: ['N', 'C'], isOptional: true },
      scale: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      norm: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      dembedded: { access: '+=', type: 'element', shape: ['N', 'C'] },
      dfactors: { access: 'accumulate', type: 'fp32', shape: ['3'] },
      dout: { access: 'read', type: 'element', shape: ['N', 'C'] },
      later: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true },
      laterFactors: { access: 'read', type: 'element', shape: ['3'], isOptional: true, together: 'later' },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      skip: { access: 'read', type: 'element', shape: ['N', 'C'], isOptional: true },
      embedded: { access: 'read', type: 'element', shape: ['N', 'C'] },
      factors: { access: 'read', type: 'element', shape: ['3'] },
    },
    sizes: ['N', 'C'],
    scalars: [],
    flags: ['accumulate'],
    relations: [{ text: 'values == null || C % 16 == 0', holds: ({ values, C }: { values: Pointer | null; C: number }) => values === null || C % 16 === 0 }],
    workspace: ({  }: {  }) => ({ name: 'factorsScratch', sizes: { K: 3 } }),
  },
  crossEntropy: {
    name: 'crossEntropy',
    symbol: 'gpt2_cross_entropy',
    formula: "losses[i] = -log softmax(logits[i,:V])[targets[i]]; dlogits[i,:V] = (softmax - onehot) * dloss, dlogits[i,V:] = 0",
    tensors: {
      losses: { access: '=', type: 'fp32', shape: ['N'] },
      dlogits: { access: '=', type: 'element', shape: ['N', 'Vp'], isOptional: true, mayBe: ['logits'] },
      logits: { access: 'read', type: 'element', shape: ['N', 'Vp'] },
      targets: { access: 'read', type: 'int32', shape: ['N'], below: 'V', orNone: true },
    },
    sizes: ['N', 'V', 'Vp'],
    scalars: ['dloss'],
    flags: [],
    relations: [{ text: 'V <= Vp', holds: ({ V, Vp }: { V: number; Vp: number }) => V <= Vp }],
  },
  classifier: {
    name: 'classifier',
    symbol: 'gpt2_classifier',
    formula: "The last linear layer with its loss, and backward through both: losses[i] = -log softmax(logits[i])[targets[i]] over the first V outputs, with logits = in * weight^T + bias, limited as by softcap_forward if softcap > 0; din, dweight and dbias are the gradients of dloss * sum of losses",
    tensors: {
      losses: { access: '=', type: 'fp32', shape: ['N'] },
      din: { access: '=', type: 'element', shape: ['N', 'C'], isOptional: true },
      dweight: { access: 'accumulate', type: 'gradient', shape: ['Vp', 'C'], isOptional: true },
      dbias: { access: 'accumulate', type: 'fp32', shape: ['Vp'], isOptional: true },
      step: { access: 'updated', type: 'fp32', shape: ['64'], isOptional: true, where: { argument: 'inValues', operator: '!=', value: null, orNull: true } },
      logits: { access: 'scratch', type: 'element', shape: ['N', 'Vp'] },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      inValues: { access: 'read', type: 'fp8', shape: ['N', 'C'], isOptional: true },
      inScale: { access: 'read', type: 'fp32', shape: ['N'], isOptional: true, together: 'inValues' },
      weight: { access: 'read', type: 'element', shape: ['Vp', 'C'] },
      weightValues: { access: 'read', type: 'fp8', shape: ['Vp', 'C'], isOptional: true, together: 'inValues' },
      weightTransposed: { access: 'read', type: 'fp8', shape: ['C', 'Vp'], isOptional: true, together: 'inValues' },
      factors: { access: 'read', type: 'fp32', shape: ['4'], isOptional: true, together: 'inValues' },
      bias: { access: 'read', type: 'element', shape: ['Vp'], isOptional: true },
      targets: { access: 'read', type: 'int32', shape: ['N'], below: 'V', orNone: true },
    },
    sizes: ['N', 'C', 'V', 'Vp'],
    scalars: ['dloss', 'softcap'],
    flags: ['accumulate'],
    relations: [{ text: 'V <= Vp', holds: ({ V, Vp }: { V: number; Vp: number }) => V <= Vp }, { text: 'softcap >= 0', holds: ({ softcap }: { softcap: number }) => softcap >= 0 }, { text: 'inValues == null || C % 16 == 0', holds: ({ inValues, C }: { inValues: Pointer | null; C: number }) => inValues === null || C % 16 === 0 }, { text: 'inValues == null || Vp % 16 == 0', holds: ({ inValues, Vp }: { inValues: Pointer | null; Vp: number }) => inValues === null || Vp % 16 === 0 }],
    workspace: ({ N, C, Vp, din, dweight, dbias, inValues }: { N: number; C: number; Vp: number; din: Pointer | null; dweight: Pointer | null; dbias: Pointer | null; inValues: Pointer | null }) => ({ name: 'classifierScratch', sizes: { N, C, Vp, gradients: din || dweight || dbias ? 1 : 0, fp8: inValues ? 1 : 0 } }),
  },
  lossSum: {
    name: 'lossSum',
    symbol: 'gpt2_loss_sum',
    formula: "step[LOSS] (=|+=) scale * sum of losses, summed in double",
    tensors: {
      step: { access: 'updated', type: 'fp32', shape: ['64'] },
      losses: { access: 'read', type: 'fp32', shape: ['N'] },
    },
    sizes: ['N'],
    scalars: ['scale'],
    flags: ['accumulate'],
    relations: [],
  },
  fp8QuantizeWeight: {
    name: 'fp8QuantizeWeight',
    symbol: 'gpt2_fp8_quantize_weight',
    formula: "The weight in FP8 and its factors",
    tensors: {
      values: { access: '=', type: 'fp8', shape: ['O', 'C'], isOptional: true },
      transposed: { access: '=', type: 'fp8', shape: ['C', 'O'], isOptional: true },
      factors: { access: '=', type: 'fp32', shape: ['4'] },
      weight: { access: 'read', type: 'element', shape: ['O', 'C'] },
      bias: { access: 'read', type: 'element', shape: ['O'], isOptional: true },
    },
    sizes: ['C', 'O'],
    scalars: [],
    flags: [],
    relations: [{ text: 'C % 16 == 0', holds: ({ C }: { C: number }) => C % 16 === 0 }, { text: 'O % 16 == 0', holds: ({ O }: { O: number }) => O % 16 === 0 }],
    workspace: ({ C, O }: { C: number; O: number }) => ({ name: 'fp8QuantizeWeightScratch', sizes: { C, O } }),
  },
  fp8Transpose: {
    name: 'fp8Transpose',
    symbol: 'gpt2_fp8_transpose',
    formula: "The columnwise copy of a matrix in FP8",
    tensors: {
      columnwise: { access: '=', type: 'fp8', shape: ['C', 'N/16', '16'] },
      columnwiseScale: { access: '=', type: 'fp32', shape: ['N/512'] },
      columnwiseNorm: { access: '=', type: 'fp32', shape: ['N/512'] },
      values: { access: 'read', type: 'fp8', shape: ['N', 'C'] },
      scale: { access: 'read', type: 'fp32', shape: ['N'] },
      norm: { access: 'read', type: 'fp32', shape: ['N'] },
    },
    sizes: ['N', 'C'],
    scalars: [],
    flags: [],
    relations: [{ text: 'C % 16 == 0', holds: ({ C }: { C: number }) => C % 16 === 0 }],
  },
  fp8MatmulForward: {
    name: 'fp8MatmulForward',
    symbol: 'gpt2_fp8_matmul_forward',
    formula: "matmul_forward in FP8: out = in * weight^T + bias + residual",
    tensors: {
      out: { access: '=', type: 'element', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 0, orNull: false } },
      values: { access: '=', type: 'fp8', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '!=', value: 0, orNull: false } },
      scale: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      columnwise: { access: '=', type: 'fp8', shape: ['O', 'N/16', '16'], isOptional: true, where: { argument: 'activation', operator: '!=', value: 0, orNull: true } },
      columnwiseScale: { access: '=', type: 'fp32', shape: ['N/512'], isOptional: true, together: 'columnwise' },
      derivative: { access: '=', type: 'int8', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 1, orNull: false } },
      in: { access: 'read', type: 'fp8', shape: ['N', 'C'] },
      inScale: { access: 'read', type: 'fp32', shape: ['N'] },
      inNorm: { access: 'read', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      inColumnwiseNorm: { access: 'read', type: 'fp32', shape: ['N/512'], isOptional: true, together: 'columnwise' },
      weight: { access: 'read', type: 'fp8', shape: ['O', 'C'] },
      factors: { access: 'read', type: 'fp32', shape: ['4'] },
      bias: { access: 'read', type: 'element', shape: ['O'], isOptional: true },
      residual: { access: 'read', type: 'element', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 0, orNull: true } },
    },
    sizes: ['N', 'C', 'O'],
    scalars: ['activation'],
    flags: [],
    relations: [{ text: 'C % 16 == 0', holds: ({ C }: { C: number }) => C % 16 === 0 }, { text: 'O % 16 == 0', holds: ({ O }: { O: number }) => O % 16 === 0 }, { text: 'activation >= 0 && activation <= 2', holds: ({ activation }: { activation: number }) => activation >= 0 && activation <= 2 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'fp8MatmulScratch', sizes: { N, C, O, gradients: 0 } }),
  },
  fp8MatmulBackwardInput: {
    name: 'fp8MatmulBackwardInput',
    symbol: 'gpt2_fp8_matmul_backward_input',
    formula: "matmul_backward_input in FP8: din = dout * weight",
    tensors: {
      din: { access: '=', type: 'element', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '==', value: 0, orNull: false } },
      values: { access: '=', type: 'fp8', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '!=', value: 0, orNull: false } },
      scale: { access: '=', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      columnwise: { access: '=', type: 'fp8', shape: ['C', 'N/16', '16'], isOptional: true, together: 'values' },
      columnwiseScale: { access: '=', type: 'fp32', shape: ['N/512'], isOptional: true, together: 'values' },
      dout: { access: 'read', type: 'fp8', shape: ['N', 'O'] },
      doutScale: { access: 'read', type: 'fp32', shape: ['N'] },
      doutNorm: { access: 'read', type: 'fp32', shape: ['N'], isOptional: true, together: 'values' },
      doutColumnwiseNorm: { access: 'read', type: 'fp32', shape: ['N/512'], isOptional: true, together: 'values' },
      transposed: { access: 'read', type: 'fp8', shape: ['C', 'O'] },
      factors: { access: 'read', type: 'fp32', shape: ['4'] },
      derivative: { access: 'read', type: 'int8', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '==', value: 1, orNull: false } },
      activated: { access: 'read', type: 'fp8', shape: ['N', 'C'], isOptional: true, where: { argument: 'activation', operator: '==', value: 2, orNull: false } },
      activatedScale: { access: 'read', type: 'fp32', shape: ['N'], isOptional: true, together: 'activated' },
      activatedColumnwiseScale: { access: 'read', type: 'fp32', shape: ['N/512'], isOptional: true, together: 'activated' },
    },
    sizes: ['N', 'C', 'O'],
    scalars: ['activation'],
    flags: [],
    relations: [{ text: 'O % 16 == 0', holds: ({ O }: { O: number }) => O % 16 === 0 }, { text: 'C % 16 == 0', holds: ({ C }: { C: number }) => C % 16 === 0 }, { text: 'activation >= 0 && activation <= 2', holds: ({ activation }: { activation: number }) => activation >= 0 && activation <= 2 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'fp8MatmulScratch', sizes: { N, C, O, gradients: 0 } }),
  },
  fp8MatmulBackwardWeight: {
    name: 'fp8MatmulBackwardWeight',
    symbol: 'gpt2_fp8_matmul_backward_weight',
    formula: "matmul_backward_weight from columnwise copies: dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout",
    tensors: {
      dweight: { access: 'accumulate', type: 'gradient', shape: ['O', 'C'] },
      dbias: { access: 'accumulate', type: 'fp32', shape: ['O'], isOptional: true },
      dout: { access: 'read', type: 'fp8', shape: ['O', 'N/16', '16'] },
      doutScale: { access: 'read', type: 'fp32', shape: ['N/512'] },
      in: { access: 'read', type: 'fp8', shape: ['C', 'N/16', '16'] },
      inScale: { access: 'read', type: 'fp32', shape: ['N/512'] },
    },
    sizes: ['N', 'C', 'O'],
    scalars: [],
    flags: ['accumulate'],
    relations: [{ text: 'O % 16 == 0', holds: ({ O }: { O: number }) => O % 16 === 0 }, { text: 'C % 16 == 0', holds: ({ C }: { C: number }) => C % 16 === 0 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'fp8MatmulScratch', sizes: { N, C, O, gradients: 1 } }),
  },
  globalNorm: {
    name: 'globalNorm',
    symbol: 'gpt2_global_norm',
    formula: "`targets` is 1 / dloss, and f = targets / step[TARGETS] leaves targets of -1 out of the means: step[LOSS] *= f; step[NORM] = f * sqrt of the sum of squares over `matrices` and `vectors`; step[CLIP] = f * max_norm / step[NORM] if step[NORM] > max_norm > 0, else f; step[UPDATED] = 1 if step[LOSS] <= step[LOSS_LIMIT] and step[NORM] <= step[NORM_LIMIT] and (step[AFTER_UPDATE] = 0 or step[UPDATED] was not 0), else 0",
    tensors: {
      step: { access: 'updated', type: 'fp32', shape: ['64'] },
      matrices: { access: 'updated', type: 'gradient', shape: ['parts', 'matrixCount'] },
      vectors: { access: 'read', type: 'fp32', shape: ['vectorCount'] },
    },
    sizes: ['parts', 'matrixCount', 'vectorCount'],
    scalars: ['targets', 'maxNorm'],
    flags: [],
    hasRanks: true,
    relations: [{ text: 'communicator != null || parts == 1', holds: ({ communicator, parts }: { communicator: Pointer | null; parts: number }) => communicator !== null || parts === 1 }, { text: 'parts == 1 || matrixCount % 32 == 0', holds: ({ parts, matrixCount }: { parts: number; matrixCount: number }) => parts === 1 || matrixCount % 32 === 0 }],
    workspace: ({ matrixCount, vectorCount }: { matrixCount: number; vectorCount: number }) => ({ name: 'globalNormScratch', sizes: { matrixCount, vectorCount } }),
  },
  adamw: {
    name: 'adamw',
    symbol: 'gpt2_adamw',
    formula: "AdamW (Loshchilov and Hutter 2019), with g = gradient * step[CLIP]: m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2; master -= lr * (m / c1 / (sqrt(v / c2) + eps) + weight_decay * master)",
    tensors: {
      weight: { access: 'kept', type: 'element', shape: ['count'], mayBe: ['master'] },
      master: { access: 'updated', type: 'fp32', shape: ['count'] },
      m: { access: 'updated', type: 'fp32', shape: ['count'] },
      v: { access: 'updated', type: 'fp32', shape: ['count'] },
      gradient: { access: 'read', type: 'gradientDtype', shape: ['count'] },
      step: { access: 'read', type: 'fp32', shape: ['64'] },
    },
    sizes: ['count', 'firstScalar'],
    scalars: ['rate', 'beta1', 'beta2', 'eps', 'weightDecay'],
    flags: [],
    relations: [{ text: 'firstScalar >= 4', holds: ({ firstScalar }: { firstScalar: number }) => firstScalar >= 4 }, { text: 'firstScalar + 2 <= 14', holds: ({ firstScalar }: { firstScalar: number }) => firstScalar + 2 <= 14 }],
  },
  muonMomentum: {
    name: 'muonMomentum',
    symbol: 'gpt2_muon_momentum',
    formula: "With g = gradient * step[CLIP] and mu = step[scalar]: momentum = mu momentum + (1-mu) g, then (Nesterov's) direction = mu momentum + (1-mu) g",
    tensors: {
      direction: { access: 'kept', type: 'element', shape: ['rows', 'columns'] },
      momentum: { access: 'updated', type: 'fp32', shape: ['rows', 'columns'] },
      gradient: { access: 'read', type: 'gradientDtype', shape: ['rows', 'columns'] },
      step: { access: 'read', type: 'fp32', shape: ['64'] },
    },
    sizes: ['rows', 'columns', 'scalar'],
    scalars: [],
    flags: [],
    relations: [{ text: 'scalar >= 4', holds: ({ scalar }: { scalar: number }) => scalar >= 4 }, { text: 'scalar < 14', holds: ({ scalar }: { scalar: number }) => scalar < 14 }],
  },
  normalizeMatrices: {
    name: 'normalizeMatrices',
    symbol: 'gpt2_normalize_matrices',
    formula: "Each matrix is divided by margin * (its Frobenius norm) + eps",
    tensors: {
      matrices: { access: 'updated', type: 'element', shape: ['M', 'R', 'K'] },
    },
    sizes: ['M', 'R', 'K'],
    scalars: ['margin', 'eps'],
    flags: [],
    relations: [],
    workspace: ({ M, R, K }: { M: number; R: number; K: number }) => ({ name: 'newtonSchulzScratch', sizes: { M, R, K } }),
  },
  newtonSchulz: {
    name: 'newtonSchulz',
    symbol: 'gpt2_newton_schulz',
    formula: "A step of a Newton-Schulz iteration on M matrices: each singular value x becomes a x + b x^3 + c x^5",
    tensors: {
      out: { access: '=', type: 'element', shape: ['M', 'R', 'K'] },
      in: { access: 'read', type: 'element', shape: ['M', 'R', 'K'] },
    },
    sizes: ['M', 'R', 'K'],
    scalars: ['a', 'b', 'c'],
    flags: [],
    relations: [{ text: 'R <= K', holds: ({ R, K }: { R: number; K: number }) => R <= K }],
    workspace: ({ M, R, K }: { M: number; R: number; K: number }) => ({ name: 'newtonSchulzScratch', sizes: { M, R, K } }),
  },
  muonUpdate: {
    name: 'muonUpdate',
    symbol: 'gpt2_muon_update',
    formula: "master = master (1 - lr weight_decay) - lr sqrt(max(1, rows/columns)) direction",
    tensors: {
      weight: { access: 'kept', type: 'element', shape: ['rows', 'columns'], mayBe: ['master'] },
      master: { access: 'updated', type: 'fp32', shape: ['rows', 'columns'] },
      direction: { access: 'read', type: 'element', shape: ['rows', 'columns'] },
      step: { access: 'read', type: 'fp32', shape: ['64'] },
    },
    sizes: ['rows', 'columns'],
    scalars: ['rate', 'weightDecay'],
    flags: [],
    relations: [],
  },
  normMatmulForward: {
    name: 'normMatmulForward',
    symbol: 'gpt2_norm_matmul_forward',
    formula: "out = activation(layernorm(in) * weight^T + bias), for few rows; the layernorm's eps is 1e-5, `pre` is GELU's input",
    tensors: {
      out: { access: '=', type: 'element', shape: ['N', 'O'] },
      pre: { access: '=', type: 'element', shape: ['N', 'O'], isOptional: true, where: { argument: 'activation', operator: '==', value: 1, orNull: false } },
      in: { access: 'read', type: 'element', shape: ['N', 'C'] },
      normWeight: { access: 'read', type: 'element', shape: ['C'] },
      normBias: { access: 'read', type: 'element', shape: ['C'] },
      weight: { access: 'read', type: 'element', shape: ['O', 'C'] },
      bias: { access: 'read', type: 'element', shape: ['O'], isOptional: true },
    },
    sizes: ['N', 'C', 'O'],
    scalars: ['activation'],
    flags: [],
    relations: [{ text: 'activation >= 0 && activation <= 1', holds: ({ activation }: { activation: number }) => activation >= 0 && activation <= 1 }],
    workspace: ({ N, C, O }: { N: number; C: number; O: number }) => ({ name: 'normMatmulScratch', sizes: { N, C, O } }),
  },
  attentionCachedForward: {
    name: 'attentionCachedForward',
    symbol: 'gpt2_attention_cached_forward',
    formula: "Writes the T new keys and values of each sequence to rows positions[b] to positions[b]+T-1 of the cache, then attention of the T new queries: each attends to all rows up to its position or, if `window` is not 0, to the last `window` of them",
    tensors: {
      out: { access: '=', type: 'element', shape: ['B', 'T', 'C'] },
      keys: { access: 'updated', type: 'element', shape: ['B', 'NH', 'S', 'C/NH'] },
      values: { access: 'updated', type: 'element', shape: ['B', 'NH', 'S', 'C/NH'] },
      qkv: { access: 'read', type: 'element', shape: ['B', 'T', '3C'] },
      positions: { access: 'read', type: 'int32', shape: ['B'] },
    },
    sizes: ['B', 'T', 'S', 'C', 'NH'],
    scalars: ['window'],
    flags: [],
    relations: [{ text: 'C % NH == 0', holds: ({ C, NH }: { C: number; NH: number }) => C % NH === 0 }, { text: 'C / NH <= 256', holds: ({ C, NH }: { C: number; NH: number }) => C / NH <= 256 }, { text: 'window >= 0', holds: ({ window }: { window: number }) => window >= 0 }],
    workspace: ({ S }: { S: number }) => ({ name: 'attentionCachedScratch', sizes: { S } }),
  },
  sample: {
    name: 'sample',
    symbol: 'gpt2_sample',
    formula: "Chooses the next token of each sequence by temperature, top-k and top-p: tokens[b,positions[b]+1] = the choice, positions[b] += 1",
    tensors: {
      tokens: { access: 'updated', type: 'int32', shape: ['B', 'S+1'] },
      positions: { access: 'updated', type: 'int32', shape: ['B'] },
      logits: { access: 'read', type: 'element', shape: ['B', 'Vp'] },
      seeds: { access: 'read', type: 'int32', shape: ['B'] },
    },
    sizes: ['B', 'S', 'V', 'Vp'],
    scalars: ['temperature', 'topK', 'topP'],
    flags: [],
    relations: [{ text: 'V <= Vp', holds: ({ V, Vp }: { V: number; Vp: number }) => V <= Vp }, { text: 'temperature >= 0', holds: ({ temperature }: { temperature: number }) => temperature >= 0 }, { text: 'topK >= 0', holds: ({ topK }: { topK: number }) => topK >= 0 }, { text: 'topP >= 0', holds: ({ topP }: { topP: number }) => topP >= 0 }, { text: 'topP <= 1', holds: ({ topP }: { topP: number }) => topP <= 1 }],
    workspace: ({ B, V }: { B: number; V: number }) => ({ name: 'sampleScratch', sizes: { B, V } }),
  },
  allReduce: {
    name: 'allReduce',
    symbol: 'gpt2_all_reduce',
    formula: "data = the sum of every rank's data",
    tensors: {
      data: { access: 'updated', type: 'dtype', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: [],
    flags: [],
    hasRanks: true,
    relations: [],
  },
  reduceScatter: {
    name: 'reduceScatter',
    symbol: 'gpt2_reduce_scatter',
    formula: "out[r,:count] = rank r's in[this rank]; where P is 1, out[0,:count] = the sum of all ranks' in[this rank]",
    tensors: {
      out: { access: '=', type: 'dtype', shape: ['P', 'stride'] },
      in: { access: 'read', type: 'dtype', shape: ['R', 'count'] },
    },
    sizes: ['count', 'stride'],
    scalars: [],
    flags: [],
    hasRanks: true,
    relations: [{ text: 'stride >= count', holds: ({ stride, count }: { stride: number; count: number }) => stride >= count }],
  },
  allGather: {
    name: 'allGather',
    symbol: 'gpt2_all_gather',
    formula: "out[r] = rank r's `in`",
    tensors: {
      out: { access: '=', type: 'dtype', shape: ['R', 'count'], mayBe: ['in'] },
      in: { access: 'read', type: 'dtype', shape: ['count'] },
    },
    sizes: ['count'],
    scalars: [],
    flags: [],
    hasRanks: true,
    relations: [],
  },
} as const satisfies Record<string, OpContract>;

/**
 * out[b,t,:] = wte[id,:] + wpe[p,:]. Without positions id = tokens[b,t] and p = t; with positions id = texts[b,p] and
 * p = positions[b] + t (see "generation").
 *   out = [B,T,C], tokens [B,T] < V where positions == NULL, texts [B,S+1] where positions != NULL, positions [B] or NULL,
 *   wte [>=V,C] by tokens, wpe [>=S,C] or NULL; positions != NULL || S == T
 */
export function embeddingForward(device: Device, args: { out: Tensor; tokens: Tensor | null; texts: Tensor | null; positions: Tensor | null; wte: Tensor; wpe: Tensor | null; S: number; V: number }): void {
  enqueue(device, contracts.embeddingForward, args);
}

/**
 * dwte[v,:] += sum of dout[b,t,:] over tokens[b,t] = v, in an order that depends only on the tokens;
 * dwpe[t,:] (=|+=) sum over b of dout[b,t,:]. In training dwte may already hold the gradient of gpt2_classifier, whose
 * weight can be wte. On CUDA V is at most 65536, the limit of a token file, and a token outside [0, V) counts only in dwpe.
 *   dwte += [>=V,C]: gradient by tokens, dwpe (accumulate) [>=T,C]: gradient or NULL, dout [B,T,C], tokens [B,T] < V;
 *   workspace (B,T,C,V)
 */
export function embeddingBackward(device: Device, args: { dwte: Tensor; dwpe: Tensor | null; dout: Tensor; tokens: Tensor; V: number; accumulate: boolean }): void {
  enqueue(device, contracts.embeddingBackward, args);
}

/**
 * out = (in - mean) * rstd * weight + bias over the last dimension, rstd = 1/sqrt(population variance + eps); or in RMSNorm
 * out = in * rstd * weight, rstd = 1/sqrt(mean of in^2 + eps).
 *   out = [N,C] or NULL, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values, mean = [N] or NULL,
 *   rstd = [N], in [N,C], weight [C], bias [C] with mean; out != NULL || values != NULL; eps >= 0
 */
export function normForward(device: Device, args: { out: Tensor | null; values: Tensor | null; scale: Tensor | null; norm: Tensor | null; mean: Tensor | null; rstd: Tensor; in: Tensor; weight: Tensor; bias: Tensor | null; eps: number }): void {
  enqueue(device, contracts.normForward, args);
}

/**
 * With g = dout * weight and normalized = (in - mean) * rstd, `mean` and mean(g) 0 in RMSNorm:
 * din = rstd * (g - mean(g) - normalized * mean(g * normalized)) + dresidual, the residual stream's gradient; dweight (=|+=)
 * column sums of dout * normalized; dbias (=|+=) column sums of dout.
 *   din = [N,C] may be dout or dresidual, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
 *   dweight (accumulate) [C], dbias (accumulate) [C] with mean, dout [N,C], dresidual [N,C] or NULL, in [N,C], weight [C],
 *   mean [N] or NULL, rstd [N]; workspace (N,C)
 */
export function normBackward(device: Device, args: { din: Tensor; values: Tensor | null; scale: Tensor | null; norm: Tensor | null; dweight: Tensor; dbias: Tensor | null; dout: Tensor; dresidual: Tensor | null; in: Tensor; weight: Tensor; mean: Tensor | null; rstd: Tensor; accumulate: boolean }): void {
  enqueue(device, contracts.normBackward, args);
}

/**
 * out = activation(in * weight^T + bias) + residual. Backward needs GELU's input `pre`, or the squared ReLU's `out`.
 *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], weight [O,C], bias [O] or NULL,
 *   residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION; workspace (N,C,O,0)
 */
export function matmulForward(device: Device, args: { out: Tensor; pre: Tensor | null; in: Tensor; weight: Tensor; bias: Tensor | null; residual: Tensor | null; activation: number }): void {
  enqueue(device, contracts.matmulForward, args);
}

/**
 * din[n,c] = (dout * weight)[n,c] f[n,c], with the derivative f of the activation before the layer: gelu'(pre), or 2 sqrt(activated).
 *   din = [N,C], dout [N,O], weight [O,C], pre [N,C] where activation == GPT2_GELU,
 *   activated [N,C] where activation == GPT2_RELU_SQUARED; workspace (N,C,O,0)
 */
export function matmulBackwardInput(device: Device, args: { din: Tensor; dout: Tensor; weight: Tensor; pre: Tensor | null; activated: Tensor | null; activation: number }): void {
  enqueue(device, contracts.matmulBackwardInput, args);
}

/**
 * dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
 *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [N,O], in [N,C]; workspace (N,C,O,1)
 */
export function matmulBackwardWeight(device: Device, args: { dweight: Tensor; dbias: Tensor | null; dout: Tensor; in: Tensor; accumulate: boolean }): void {
  enqueue(device, contracts.matmulBackwardWeight, args);
}

/**
 * Normalizes and rotates each head's q and k in place. QK-norm (Henry et al. 2020): x = x * rstd, with
 * rstd = 1/sqrt(mean of x^2 + eps) over the head, or 1 if rstd is NULL. Rotary position p (Su et al. 2021), with i < HS/2,
 * cos = rotations[p,i] and sin = rotations[p,i+HS/2]: x[i] = x[i] cos + x[i+HS/2] sin, x[i+HS/2] = x[i+HS/2] cos - x[i] sin.
 * q is multiplied by query_factor last. Token t has position t, or positions[b] + t with `positions`; a position outside
 * [0, S - T + t] makes q and k NaN. rstd holds, for each token, NH values of q and then NH of k. v, the last C elements of
 * a row of qkv, is accessed only with value_factors: `values` = v, then v = value_factors[0] v + value_factors[1] embedded,
 * where `embedded` is a value embedding of the token (Zhou et al. 2024), 0 if NULL.
 *   qkv (updated) [B,T,3C] first 2C, rstd = [B,T,2NH] or NULL, values = [B,T,C] with value_factors, rotations [S,C/NH],
 *   positions [B] or NULL, value_factors [2] or NULL, embedded [B,T,C] or NULL where value_factors != NULL;
 *   C % (2 * NH) == 0; T <= S; eps >= 0
 */
export function qkNormRotaryForward(device: Device, args: { qkv: Tensor; rstd: Tensor | null; values: Tensor | null; rotations: Tensor; positions: Tensor | null; valueFactors: Tensor | null; embedded: Tensor | null; NH: number; eps: number; queryFactor: number }): void {
  enqueue(device, contracts.qkNormRotaryForward, args);
}

/**
 * Turns the gradient of forward's result `qkv` into the gradient of forward's input, in place; for v only with value_factors.
 * Forward ran without positions. Let y be forward's result and dy its gradient, both rotated back; for q, divide y and
 * multiply dy by query_factor. Then dx = rstd * (dy - y * mean(dy * y)), or dy if rstd is NULL. With value_factors:
 * dvalue_factors (=|+=) the sums of dv * values and of dv * embedded; dembedded = value_factors[1] dv; dv = value_factors[0] dv.
 *   dqkv (updated) [B,T,3C] first 2C, dvalue_factors (accumulate) [2] with value_factors, dembedded = [B,T,C] with embedded,
 *   qkv [B,T,3C] first 2C, rstd [B,T,2NH] or NULL, rotations [>=T,C/NH], value_factors [2] or NULL,
 *   values [B,T,C] with value_factors, embedded [B,T,C] or NULL where value_factors != NULL; C % (2 * NH) == 0;
 *   query_factor != 0; workspace (2)
 */
export function qkNormRotaryBackward(device: Device, args: { dqkv: Tensor; dvalueFactors: Tensor | null; dembedded: Tensor | null; qkv: Tensor; rstd: Tensor | null; rotations: Tensor; valueFactors: Tensor | null; values: Tensor | null; embedded: Tensor | null; NH: number; queryFactor: number; accumulate: boolean }): void {
  enqueue(device, contracts.qkNormRotaryBackward, args);
}

/**
 * For each head, softmax(q*k^T/sqrt(HS))*v, where a query t attends to positions first[b,t] to t; to 0 to t if `first` is
 * NULL. qkv holds q, k, v, each [NH,HS]. first[b,t] = max(0, t - w + 1) makes a window of w positions; the
 * start of t's document separates documents; the larger of these two does both. If a row of `first` decreases or exceeds t,
 * the CPU library refuses it; on CUDA results are undefined, but the op ends and reads no other memory. lse is the log of
 * the softmax's denominator, from which backward recomputes the probabilities (Dao et al. 2022). On CUDA HS is at most
 * 256, and less on GPUs whose blocks have little shared memory: a larger HS gives GPT2_UNSUPPORTED.
 *   out = [B,T,C], lse = [B,NH,T], qkv [B,T,3C], first [B,T] <= t or NULL; C % NH == 0; workspace (B,T,C,NH)
 */
export function attentionForward(device: Device, args: { out: Tensor; lse: Tensor; qkv: Tensor; first: Tensor | null }): void {
  enqueue(device, contracts.attentionForward, args);
}

/**
 * With p = exp(q*k^T/sqrt(HS) - lse) where a query attends to a key, else 0: dv = p^T * dout;
 * ds[t,s] = p[t,s] ((dout * v^T)[t,s] - sum of dout[t] out[t]) / sqrt(HS); dq = ds * k; dk = ds^T * q. `first` as in forward.
 *   dqkv = [B,T,3C], dout [B,T,C], out [B,T,C], qkv [B,T,3C], lse [B,NH,T], first [B,T] <= t or NULL; C % NH == 0;
 *   workspace (B,T,C,NH)
 */
export function attentionBackward(device: Device, args: { dqkv: Tensor; dout: Tensor; out: Tensor; qkv: Tensor; lse: Tensor; first: Tensor | null }): void {
  enqueue(device, contracts.attentionBackward, args);
}

/**
 * GELU (Hendrycks and Gimpel 2016) in tanh form, out = 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 *   out = [count], in [count]
 */
export function geluForward(device: Device, args: { out: Tensor; in: Tensor }): void {
  enqueue(device, contracts.geluForward, args);
}

/**
 * din = dout * gelu'(in).
 *   din = [count] may be dout, dout [count], in [count]
 */
export function geluBackward(device: Device, args: { din: Tensor; dout: Tensor; in: Tensor }): void {
  enqueue(device, contracts.geluBackward, args);
}

/**
 * out = a + b. Backward is the identity on both sides (see dresidual of gpt2_norm_backward).
 *   out = [count] may be a or b, a [count], b [count]
 */
export function residualForward(device: Device, args: { out: Tensor; a: Tensor; b: Tensor }): void {
  enqueue(device, contracts.residualForward, args);
}

/**
 * Limits logits (Gemma Team 2024), here by an algebraic sigmoid: out = cap * in / sqrt(in^2 + cap^2).
 *   out = [count] may be in, in [count]; cap > 0
 */
export function softcapForward(device: Device, args: { out: Tensor; in: Tensor; cap: number }): void {
  enqueue(device, contracts.softcapForward, args);
}

/**
 * The input of a layer: out = factors[0] (in + factors[2] skip) + factors[1] embedded, with `in` the residual stream,
 * `skip` the output of an earlier layer, 0 if NULL, and `embedded` the input of the first layer.
 *   out = [N,C], in [N,C], skip [N,C] or NULL, embedded [N,C], factors [3]
 */
export function streamSumForward(device: Device, args: { out: Tensor; in: Tensor; skip: Tensor | null; embedded: Tensor; factors: Tensor }): void {
  enqueue(device, contracts.streamSumForward, args);
}

/**
 * din = factors[0] dout + later_factors[0] later_factors[2] later, the gradients of `in` as the residual stream of this
 * layer and as the skip of a later layer, whose dout is `later`. dembedded += factors[1] dout; dfactors (=|+=) the sums of
 * dout * (in + factors[2] skip), of dout * embedded, and of factors[0] dout * skip.
 *   din = [N,C] may be dout or later, values = [N,C] or NULL, scale = [N] with values, norm = [N] with values,
 *   dembedded += [N,C], dfactors (accumulate) [3], dout [N,C], later [N,C] or NULL, later_factors [3] with later, in [N,C],
 *   skip [N,C] or NULL, embedded [N,C], factors [3]; workspace gpt2_factors_scratch(3)
 */
export function streamSumBackward(device: Device, args: { din: Tensor; values: Tensor | null; scale: Tensor | null; norm: Tensor | null; dembedded: Tensor; dfactors: Tensor; dout: Tensor; later: Tensor | null; laterFactors: Tensor | null; in: Tensor; skip: Tensor | null; embedded: Tensor; factors: Tensor; accumulate: boolean }): void {
  enqueue(device, contracts.streamSumBackward, args);
}

/**
 * losses[i] = -log softmax(logits[i,:V])[targets[i]]; dlogits[i,:V] = (softmax - onehot) * dloss, dlogits[i,V:] = 0. Here and
 * in gpt2_classifier a row with target -1 has loss and gradient 0. For a mean loss, dloss is 1 / (tokens of a step).
 *   losses = [N], dlogits = [N,Vp] or NULL may be logits, logits [N,Vp], targets [N] < V or -1; V <= Vp
 */
export function crossEntropy(device: Device, args: { losses: Tensor; dlogits: Tensor | null; logits: Tensor; targets: Tensor; V: number; dloss: number }): void {
  enqueue(device, contracts.crossEntropy, args);
}

/**
 * The last linear layer with its loss, and backward through both: losses[i] = -log softmax(logits[i])[targets[i]] over the
 * first V outputs, with logits = in * weight^T + bias, limited as by gpt2_softcap_forward if softcap > 0; din, dweight and
 * dbias are the gradients of dloss * sum of losses. On sm_90 a logit over the target's logit + 77 counts as this sum.
 *
 * With copies of `in` and `weight` in FP8, logits = (in_values * in_scale) * weight_values^T * factors[SCALE] + bias, and
 * gradients are computed in FP8 (in bf16 on GPUs other than sm_90), from exponentials in E5M2, divided by an estimate of
 * softmax's denominator (formulas: cpu/classifier.cpp). step[SATURATED] (=|+=) the number of rows whose exponentials sum to
 * over 57344, the largest E5M2. weight_transposed is read only with din. CUDA refuses V over 65536 with dweight.
 *   losses = [N], din = [N,C] or NULL, dweight (accumulate) [Vp,C]: gradient or NULL, dbias (accumulate) [Vp] or NULL,
 *   step (updated) [GPT2_STEP_SIZE] or NULL where in_values != NULL, logits (scratch) [N,Vp], in [N,C],
 *   in_values [N,C] or NULL, in_scale [N] with in_values, weight [Vp,C], weight_values [Vp,C] with in_values,
 *   weight_transposed [C,Vp] with in_values, factors [GPT2_FP8_FACTORS] with in_values, bias [Vp] or NULL,
 *   targets [N] < V or -1; V <= Vp; softcap >= 0; workspace (N,C,Vp,din || dweight || dbias,in_values)
 */
export function classifier(device: Device, args: { losses: Tensor; din: Tensor | null; dweight: Tensor | null; dbias: Tensor | null; step: Tensor | null; logits: Tensor; in: Tensor; inValues: Tensor | null; inScale: Tensor | null; weight: Tensor; weightValues: Tensor | null; weightTransposed: Tensor | null; factors: Tensor | null; bias: Tensor | null; targets: Tensor; V: number; dloss: number; softcap: number; accumulate: boolean }): void {
  enqueue(device, contracts.classifier, args);
}

/**
 * step[LOSS] (=|+=) scale * sum of losses, summed in double.
 *   step (updated) [GPT2_STEP_SIZE], losses [N]
 */
export function lossSum(device: Device, args: { step: Tensor; losses: Tensor; scale: number; accumulate: boolean }): void {
  enqueue(device, contracts.lossSum, args);
}

/**
 * The weight in FP8 and its factors. On CUDA at most two contexts may call this op on a GPU at the same time, because the
 * kernel's blocks wait for each other.
 *   values = [O,C] or NULL, transposed = [C,O] or NULL, factors = [GPT2_FP8_FACTORS], weight [O,C], bias [O] or NULL;
 *   C % 16 == 0; O % 16 == 0; workspace (C,O)
 */
export function fp8QuantizeWeight(device: Device, args: { values: Tensor | null; transposed: Tensor | null; factors: Tensor; weight: Tensor; bias: Tensor | null }): void {
  enqueue(device, contracts.fp8QuantizeWeight, args);
}

/**
 * The columnwise copy of a matrix in FP8. Values are rounded again only if they become subnormal at the block's scale.
 *   columnwise = [C,N/16,16], columnwise_scale = [N/GPT2_FP8_BLOCK], columnwise_norm = [N/GPT2_FP8_BLOCK], values [N,C],
 *   scale [N], norm [N]
 */
export function fp8Transpose(device: Device, args: { columnwise: Tensor; columnwiseScale: Tensor; columnwiseNorm: Tensor; values: Tensor; scale: Tensor; norm: Tensor }): void {
  enqueue(device, contracts.fp8Transpose, args);
}

/**
 * gpt2_matmul_forward in FP8: out = in * weight^T + bias + residual. With an activation the result is stored in FP8 only:
 * values * scale = gelu(pre), derivative = gelu'(pre), pre = in * weight^T + bias; or values * scale = relu(pre)^2.
 *   out = [N,O] where activation == GPT2_NO_ACTIVATION, values = [N,O] where activation != GPT2_NO_ACTIVATION,
 *   scale = [N] with values, columnwise = [O,N/16,16] or NULL where activation != GPT2_NO_ACTIVATION,
 *   columnwise_scale = [N/GPT2_FP8_BLOCK] with columnwise, derivative = [N,O] where activation == GPT2_GELU, in [N,C],
 *   in_scale [N], in_norm [N] with values, in_columnwise_norm [N/GPT2_FP8_BLOCK] with columnwise, weight [O,C],
 *   factors [GPT2_FP8_FACTORS], bias [O] or NULL, residual [N,O] or NULL where activation == GPT2_NO_ACTIVATION;
 *   workspace (N,C,O,0)
 */
export function fp8MatmulForward(device: Device, args: { out: Tensor | null; values: Tensor | null; scale: Tensor | null; columnwise: Tensor | null; columnwiseScale: Tensor | null; derivative: Tensor | null; in: Tensor; inScale: Tensor; inNorm: Tensor | null; inColumnwiseNorm: Tensor | null; weight: Tensor; factors: Tensor; bias: Tensor | null; residual: Tensor | null; activation: number }): void {
  enqueue(device, contracts.fp8MatmulForward, args);
}

/**
 * gpt2_matmul_backward_input in FP8: din = dout * weight. Through an activation the result is stored in FP8 only:
 * values * scale = (dout * weight) * derivative, or (dout * weight) * 2 sqrt(activated), with forward's result `activated`.
 *   din = [N,C] where activation == GPT2_NO_ACTIVATION, values = [N,C] where activation != GPT2_NO_ACTIVATION,
 *   scale = [N] with values, columnwise = [C,N/16,16] with values, columnwise_scale = [N/GPT2_FP8_BLOCK] with values,
 *   dout [N,O], dout_scale [N], dout_norm [N] with values, dout_columnwise_norm [N/GPT2_FP8_BLOCK] with values,
 *   transposed [C,O], factors [GPT2_FP8_FACTORS], derivative [N,C] where activation == GPT2_GELU,
 *   activated [N,C] where activation == GPT2_RELU_SQUARED, activated_scale [N] with activated,
 *   activated_columnwise_scale [N/GPT2_FP8_BLOCK] with activated; workspace (N,C,O,0)
 */
export function fp8MatmulBackwardInput(device: Device, args: { din: Tensor | null; values: Tensor | null; scale: Tensor | null; columnwise: Tensor | null; columnwiseScale: Tensor | null; dout: Tensor; doutScale: Tensor; doutNorm: Tensor | null; doutColumnwiseNorm: Tensor | null; transposed: Tensor; factors: Tensor; derivative: Tensor | null; activated: Tensor | null; activatedScale: Tensor | null; activatedColumnwiseScale: Tensor | null; activation: number }): void {
  enqueue(device, contracts.fp8MatmulBackwardInput, args);
}

/**
 * gpt2_matmul_backward_weight from columnwise copies: dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout.
 *   dweight (accumulate) [O,C]: gradient, dbias (accumulate) [O] or NULL, dout [O,N/16,16], dout_scale [N/GPT2_FP8_BLOCK],
 *   in [C,N/16,16], in_scale [N/GPT2_FP8_BLOCK]; workspace (N,C,O,1)
 */
export function fp8MatmulBackwardWeight(device: Device, args: { dweight: Tensor; dbias: Tensor | null; dout: Tensor; doutScale: Tensor; in: Tensor; inScale: Tensor; N: number; accumulate: boolean }): void {
  enqueue(device, contracts.fp8MatmulBackwardWeight, args);
}

/**
 * `targets` is 1 / dloss, and f = targets / step[TARGETS] leaves targets of -1 out of the means:
 * step[LOSS] *= f; step[NORM] = f * sqrt of the sum of squares over `matrices` and `vectors`;
 * step[CLIP] = f * max_norm / step[NORM] if step[NORM] > max_norm > 0, else f;
 * step[UPDATED] = 1 if step[LOSS] <= step[LOSS_LIMIT] and step[NORM] <= step[NORM_LIMIT] and (step[AFTER_UPDATE] = 0 or
 * step[UPDATED] was not 0), else 0. The device decides, because the host enqueues a step before it knows the previous loss.
 * With a communicator each rank passes its share of the matrices, as the `parts` rows that gpt2_reduce_scatter wrote,
 * and all vectors, which are the same at every rank. The first row becomes the sum of the rows, added in fp32 in row
 * order and rounded once. The op waits for all collectives enqueued before it.
 *   step (updated) [GPT2_STEP_SIZE], matrices (updated) [parts,matrix_count]: gradient, vectors [vector_count],
 *   communicator or NULL; communicator != NULL || parts == 1; parts == 1 || matrix_count % 32 == 0;
 *   workspace (matrix_count,vector_count)
 */
export function globalNorm(device: Device, args: { step: Tensor; matrices: Tensor; vectors: Tensor; communicator: Pointer | null; targets: number; maxNorm: number }): void {
  enqueue(device, contracts.globalNorm, args);
}

/**
 * AdamW (Loshchilov and Hutter 2019), with g = gradient * step[CLIP]: m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2;
 * master -= lr * (m / c1 / (sqrt(v / c2) + eps) + weight_decay * master). c1 = 1 - beta1^t and c2 = 1 - beta2^t (step t
 * counted from 1) are step[first_scalar] and step[first_scalar + 1].
 *   weight (kept) [count] may be master, master (updated) [count], m (updated) [count], v (updated) [count],
 *   gradient [count]: gradient_dtype, step [GPT2_STEP_SIZE]; first_scalar >= GPT2_STEP_SCALARS;
 *   first_scalar + 2 <= GPT2_STEP_TARGETS
 */
export function adamw(device: Device, args: { weight: Tensor; master: Tensor; m: Tensor; v: Tensor; gradient: Tensor; step: Tensor; firstScalar: number; rate: number; beta1: number; beta2: number; eps: number; weightDecay: number }): void {
  enqueue(device, contracts.adamw, args);
}

/**
 * With g = gradient * step[CLIP] and mu = step[scalar]: momentum = mu momentum + (1-mu) g, then (Nesterov's)
 * direction = mu momentum + (1-mu) g. Muon (Jordan 2024) updates a matrix by this op, gpt2_normalize_matrices,
 * gpt2_newton_schulz several times, and gpt2_muon_update. If rows > columns, direction is [columns,rows] in all four ops.
 *   direction (kept) [rows,columns], momentum (updated) [rows,columns], gradient [rows,columns]: gradient_dtype,
 *   step [GPT2_STEP_SIZE]; scalar >= GPT2_STEP_SCALARS; scalar < GPT2_STEP_TARGETS
 */
export function muonMomentum(device: Device, args: { direction: Tensor; momentum: Tensor; gradient: Tensor; step: Tensor; scalar: number }): void {
  enqueue(device, contracts.muonMomentum, args);
}

/**
 * Each matrix is divided by margin * (its Frobenius norm) + eps.
 *   matrices (updated) [M,R,K]; workspace (M,R,K)
 */
export function normalizeMatrices(device: Device, args: { matrices: Tensor; margin: number; eps: number }): void {
  enqueue(device, contracts.normalizeMatrices, args);
}

/**
 * A step of a Newton-Schulz iteration on M matrices: each singular value x becomes a x + b x^3 + c x^5. For a matrix X:
 * A = X X^T, B = b A + c A^2, out = a X + B X. A, B and out are rounded to the context's dtype, each once.
 *   out = [M,R,K], in [M,R,K]; R <= K; workspace (M,R,K)
 */
export function newtonSchulz(device: Device, args: { out: Tensor; in: Tensor; a: number; b: number; c: number }): void {
  enqueue(device, contracts.newtonSchulz, args);
}

/**
 * master = master (1 - lr weight_decay) - lr sqrt(max(1, rows/columns)) direction.
 *   weight (kept) [rows,columns] may be master, master (updated) [rows,columns], direction [rows,columns],
 *   step [GPT2_STEP_SIZE]
 */
export function muonUpdate(device: Device, args: { weight: Tensor; master: Tensor; direction: Tensor; step: Tensor; rate: number; weightDecay: number }): void {
  enqueue(device, contracts.muonUpdate, args);
}

/**
 * out = activation(layernorm(in) * weight^T + bias), for few rows; the layernorm's eps is 1e-5, `pre` is GELU's input.
 *   out = [N,O], pre = [N,O] where activation == GPT2_GELU, in [N,C], norm_weight [C], norm_bias [C], weight [O,C],
 *   bias [O] or NULL; activation >= 0 && activation <= GPT2_GELU; workspace (N,C,O)
 */
export function normMatmulForward(device: Device, args: { out: Tensor; pre: Tensor | null; in: Tensor; normWeight: Tensor; normBias: Tensor; weight: Tensor; bias: Tensor | null; activation: number }): void {
  enqueue(device, contracts.normMatmulForward, args);
}

/**
 * Writes the T new keys and values of each sequence to rows positions[b] to positions[b]+T-1 of the cache, then attention of
 * the T new queries: each attends to all rows up to its position or, if `window` is not 0, to the last `window` of them.
 *   out = [B,T,C], keys (updated) [B,NH,S,C/NH], values (updated) [B,NH,S,C/NH], qkv [B,T,3C], positions [B]; C % NH == 0;
 *   C / NH <= 256; window >= 0; workspace (S)
 */
export function attentionCachedForward(device: Device, args: { out: Tensor; keys: Tensor; values: Tensor; qkv: Tensor; positions: Tensor; window: number }): void {
  enqueue(device, contracts.attentionCachedForward, args);
}

/**
 * Chooses the next token of each sequence by temperature, top-k and top-p: tokens[b,positions[b]+1] = the choice,
 * positions[b] += 1. A sequence with positions[b] outside [0, S) is left unchanged. A logit that is NaN or infinite
 * makes the choice -1: the model has diverged. Temperature 0 chooses the largest logit, the first of equal ones.
 * Otherwise token i has the weight w[i] = round(2^31 e^((logits[i] - largest) / temperature)). Top-k keeps the top_k
 * largest weights (0: all); then top-p (nucleus sampling, Holtzman et al. 2019) keeps the fewest largest kept weights with
 * at least top_p of the kept sum (1: all), and of equal weights the first. The choice is the first i where the running sum
 * of the kept w, in integers, exceeds r * (sum of the kept w) / 2^64, with r the number seeds[b] * 2^32 + positions[b] of
 * SplitMix64 (Steele et al. 2014) seeded with 0.
 *   tokens (updated) [B,S+1], positions (updated) [B], logits [B,Vp], seeds [B]; V <= Vp; temperature >= 0; top_k >= 0;
 *   top_p >= 0; top_p <= 1; workspace (B,V)
 */
export function sample(device: Device, args: { tokens: Tensor; positions: Tensor; logits: Tensor; seeds: Tensor; V: number; temperature: number; topK: number; topP: number }): void {
  enqueue(device, contracts.sample, args);
}

/** Bytes of workspace. */
export const embeddingScratch = (device: Device, sizes: { B: number; T: number; C: number; V: number }): number =>
  scratch(device, 'embeddingScratch', sizes);

/** Bytes of workspace. */
export const normScratch = (device: Device, sizes: { N: number; C: number }): number =>
  scratch(device, 'normScratch', sizes);

/** Bytes of workspace. */
export const matmulScratch = (device: Device, sizes: { N: number; C: number; O: number; gradients: boolean }): number =>
  scratch(device, 'matmulScratch', sizes);

/** Bytes of workspace. */
export const factorsScratch = (device: Device, sizes: { K: number }): number =>
  scratch(device, 'factorsScratch', sizes);

/** Bytes of workspace. */
export const attentionScratch = (device: Device, sizes: { B: number; T: number; C: number; NH: number }): number =>
  scratch(device, 'attentionScratch', sizes);

/** Bytes of workspace. */
export const classifierScratch = (device: Device, sizes: { N: number; C: number; Vp: number; gradients: boolean; fp8: boolean }): number =>
  scratch(device, 'classifierScratch', sizes);

/** Bytes of workspace. */
export const fp8QuantizeWeightScratch = (device: Device, sizes: { C: number; O: number }): number =>
  scratch(device, 'fp8QuantizeWeightScratch', sizes);

/** Bytes of workspace. */
export const fp8MatmulScratch = (device: Device, sizes: { N: number; C: number; O: number; gradients: boolean }): number =>
  scratch(device, 'fp8MatmulScratch', sizes);

/** Bytes of workspace. */
export const globalNormScratch = (device: Device, sizes: { matrixCount: number; vectorCount: number }): number =>
  scratch(device, 'globalNormScratch', sizes);

/** Bytes of workspace. */
export const newtonSchulzScratch = (device: Device, sizes: { M: number; R: number; K: number }): number =>
  scratch(device, 'newtonSchulzScratch', sizes);

/** Bytes of workspace. */
export const normMatmulScratch = (device: Device, sizes: { N: number; C: number; O: number }): number =>
  scratch(device, 'normMatmulScratch', sizes);

/** Bytes of workspace. */
export const attentionCachedScratch = (device: Device, sizes: { S: number }): number =>
  scratch(device, 'attentionCachedScratch', sizes);

/** Bytes of workspace. */
export const sampleScratch = (device: Device, sizes: { B: number; V: number }): number =>
  scratch(device, 'sampleScratch', sizes);
