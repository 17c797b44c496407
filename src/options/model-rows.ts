// Options of the model: its weights, sizes and parts. One section of the options table (table.ts).
import { gpt2Architecture, parts } from '../model/architecture.ts';
import { type OptionRow, whole } from './row.ts';

/** Columns shared by all parts of the model. */
const ofPart = { optional: true, resume: 'never', bench: true } as const;

export const modelRows = {
  model: {
    usage: '--model <NAME|PATH>',
    type: 'text',
    help: 'preset, custom, or weights to start from: a path, or OWNER/NAME on the hub',
    default: { text: 'd12 on CUDA, d6 on CPU', of: ({ kind }) => (kind === 'cuda' ? 'd12' : 'd6') },
    resume: 'to the same model',
    bench: true,
    elsewhere: ['init-from', 'model-name', 'checkpoint'],
  },
  layers: {
    usage: '--layers <N>',
    type: whole(1, 1000),
    help: 'transformer layers',
    default: { text: "the model's" },
    resume: 'never',
    elsewhere: ['n-layer', 'num-layers'],
  },
  channels: {
    usage: '--channels <N>',
    type: whole(1, 65536),
    help: 'channels, the width of the model',
    default: { text: "the model's" },
    resume: 'never',
    elsewhere: ['n-embd', 'd-model', 'hidden-size'],
  },
  heads: {
    usage: '--heads <N>',
    type: whole(1, 1024),
    help: 'attention heads',
    default: { text: "the model's" },
    resume: 'never',
    elsewhere: ['n-head', 'num-heads'],
  },
  context: {
    usage: '--context <N>',
    type: whole(1, 65536),
    help: "longest sequence, in tokens; may be shorter than the starting weights'",
    default: { text: "1024, or the weights'" },
    resume: 'never',
  },
  norm: {
    usage: '--norm <NAME>',
    type: parts.norm,
    help: 'norm of the residual stream: layernorm, rmsnorm',
    default: gpt2Architecture.norm,
    ...ofPart,
  },
  positions: {
    usage: '--positions <NAME>',
    type: parts.positions,
    help: 'learned: a table added to the embedding; rotary: rotated queries and keys',
    default: gpt2Architecture.positions,
    ...ofPart,
  },
  queryKeyNorm: {
    usage: '--qk-norm <NAME>',
    type: parts.queryKeyNorm,
    help: "norm of each head's queries and keys: none, rmsnorm",
    default: gpt2Architecture.queryKeyNorm,
    ...ofPart,
  },
  attentionScale: {
    usage: '--attention-scale <X>',
    type: parts.attentionScale,
    help: "factor of attention's query-key products; 0: 1 / sqrt(head size)",
    default: gpt2Architecture.attentionScale,
    ...ofPart,
  },
  embeddingNorm: {
    usage: '--embedding-norm <NAME>',
    type: parts.embeddingNorm,
    help: 'norm of the embedding: none, rmsnorm',
    default: gpt2Architecture.embeddingNorm,
    ...ofPart,
  },
  activation: {
    usage: '--activation <NAME>',
    type: parts.activation,
    help: "the MLP's activation: gelu, or relu2, the square of ReLU",
    default: gpt2Architecture.activation,
    ...ofPart,
  },
  head: {
    usage: '--head <NAME>',
    type: parts.head,
    help: "tied: the embedding's matrix; untied: a separate matrix, with biases",
    default: gpt2Architecture.head,
    ...ofPart,
  },
  softcap: {
    usage: '--softcap <X>',
    type: parts.softcap,
    help: 'largest absolute value of a logit, approached smoothly; 0: no limit',
    default: gpt2Architecture.softcap,
    ...ofPart,
  },
  initialization: {
    usage: '--init <NAME>',
    type: parts.initialization,
    help: 'initial weights: gpt2; fan-in: by width, zeros in projections and untied head',
    default: gpt2Architecture.initialization,
    ...ofPart,
  },
} as const satisfies Record<string, OptionRow>;
