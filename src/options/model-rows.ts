// Options of the model: its weights, sizes and parts. One section of the options table (table.ts).
import { gpt2Architecture, parts } from '../model/architecture.ts';
import { sizeRanges } from '../model/config.ts';
import type { Facts, OptionRow } from './row.ts';

/** The row of an option for a size of the model. @param elsewhere the size's names in other programs */
const size = (name: keyof typeof sizeRanges, usage: string, help: string, ...elsewhere: string[]) => ({
  ...({ usage, type: sizeRanges[name], help, default: { text: "the model's" }, resume: 'never', elsewhere } as const),
});
const ofPart = { optional: true, resume: 'never', bench: true } as const;
/** The row of an option that chooses a part of the model, such as the norm; architecture.ts lists the choices of each part. */
const part = <N extends keyof typeof parts>(name: N, usage: string, help: string) => ({
  ...{ usage, type: parts[name], help, default: gpt2Architecture[name], ...ofPart },
});

const defaultModel = ({ kind }: Pick<Facts, 'kind'>) => (kind === 'cuda' ? 'd12' : 'd6');

export const modelRows = {
  model: {
    usage: '--model <NAME|PATH>',
    frequent: true,
    type: 'text',
    help: 'preset, custom, or weights to start from: a path, or OWNER/NAME on the hub',
    default: { text: 'd12 on CUDA, d6 on CPU', of: defaultModel },
    resume: 'to the same model',
    bench: true,
    elsewhere: ['e', 'init-from', 'model-name', 'checkpoint'],
  },
  layers: size('layers', '--layers <N>', 'transformer layers', 'n-layer', 'num-layers'),
  channels: size('channels', '--channels <N>', 'channels, the width of the model', 'n-embd', 'd-model', 'hidden-size'),
  heads: size('heads', '--heads <N>', 'attention heads', 'n-head', 'num-heads'),
  context: {
    usage: '--context <N>',
    type: sizeRanges.context,
    help: "longest sequence, in tokens; may be shorter than the starting weights'",
    default: { text: "1024, or the weights'" },
    resume: 'never',
    bench: true,
  },
  norm: part('norm', '--norm <NAME>', 'norm of the residual stream: layernorm, rmsnorm'),
  positions: part(
    'positions',
    '--positions <NAME>',
    'learned: a table added to the embedding; rotary: rotated queries and keys',
  ),
  queryKeyNorm: part('queryKeyNorm', '--qk-norm <NAME>', "norm of each head's queries and keys: none, rmsnorm"),
  attentionScale: part(
    'attentionScale',
    '--attention-scale <X>',
    "factor of attention's query-key products; 0: 1 / sqrt(head size)",
  ),
  embeddingNorm: part('embeddingNorm', '--embedding-norm <NAME>', 'norm of the embedding: none, rmsnorm'),
  activation: part('activation', '--activation <NAME>', "the MLP's activation: gelu, or relu2, the square of ReLU"),
  head: part('head', '--head <NAME>', "tied: the embedding's matrix; untied: a separate matrix, with biases"),
  softcap: part('softcap', '--softcap <X>', 'largest absolute value of a logit, approached smoothly; 0: no limit'),
  initialization: part(
    'initialization',
    '--init <NAME>',
    'initial weights: gpt2; fan-in, quarter-fan-in: by width, zeros in projections',
  ),
  rotaryBase: {
    ...part('rotaryBase', '--rotary-base <X>', 'the slowest rotation is 1 / X radians per position; 0: 1024'),
    onlyWith: { option: 'positions', values: ['rotary'] },
  },
  window: {
    ...part('window', '--window <N>', 'most keys of a query, its own included, in every fourth layer'),
    default: { text: 'all' },
  },
  shortWindow: {
    ...part('shortWindow', '--short-window <N>', 'most keys of a query in the other layers'),
    default: { text: 'half of --window' },
    needs: 'window',
  },
  skips: part('skips', '--skips <NAME>', 'learned: layers add the embedding and outputs of the first half; none'),
  valueEmbeddings: {
    ...part('valueEmbeddings', '--value-embeddings <N>', 'tables added to values of the first and last N layers'),
    default: 0,
  },
  documentMask: part('documentMask', '--document-mask', 'attend only within a document, begun by end of text'),
} as const satisfies Record<string, OptionRow>;
