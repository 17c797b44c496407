// Made from the options table by scripts/generate (npm run generate). Do not edit.
import type { Time } from '../base/checks/given.ts';

/** Options of a run as given: any may be missing. A key is the name in config.json; the comment begins with its flag. */
export type TrainOptions = {
  /** `--steps <N>`: optimizer steps; the schedule spans them (default: one epoch). */
  steps?: number | undefined;
  /** `--model <NAME|PATH>`: preset, custom, or weights to start from: a path, or OWNER/NAME on the hub (default: d12 on CUDA, d6 on CPU). */
  model?: string | undefined;
  /** `--layers <N>`: transformer layers (default: the model's). */
  layers?: number | undefined;
  /** `--channels <N>`: channels, the width of the model (default: the model's). */
  channels?: number | undefined;
  /** `--heads <N>`: attention heads (default: the model's). */
  heads?: number | undefined;
  /** `--context <N>`: longest sequence, in tokens; may be shorter than the starting weights' (default: 1024, or the weights'). */
  context?: number | undefined;
  /** `--norm <NAME>`: norm of the residual stream: layernorm, rmsnorm (default: layernorm). */
  norm?: 'layernorm' | 'rmsnorm' | undefined;
  /** `--positions <NAME>`: learned: a table added to the embedding; rotary: rotated queries and keys (default: learned). */
  positions?: 'learned' | 'rotary' | undefined;
  /** `--qk-norm <NAME>`: norm of each head's queries and keys: none, rmsnorm (default: none). */
  queryKeyNorm?: 'none' | 'rmsnorm' | undefined;
  /** `--attention-scale <X>`: factor of attention's query-key products; 0: 1 / sqrt(head size) (default: 0). */
  attentionScale?: number | undefined;
  /** `--embedding-norm <NAME>`: norm of the embedding: none, rmsnorm (default: none). */
  embeddingNorm?: 'none' | 'rmsnorm' | undefined;
  /** `--activation <NAME>`: the MLP's activation: gelu, or relu2, the square of ReLU (default: gelu). */
  activation?: 'gelu' | 'relu2' | undefined;
  /** `--head <NAME>`: tied: the embedding's matrix; untied: a separate matrix, with biases (default: tied). */
  head?: 'tied' | 'untied' | undefined;
  /** `--softcap <X>`: largest absolute value of a logit, approached smoothly; 0: no limit (default: 0). */
  softcap?: number | undefined;
  /** `--init <NAME>`: initial weights: gpt2; fan-in, quarter-fan-in: by width, zeros in projections (default: gpt2). */
  initialization?: 'gpt2' | 'fan-in' | 'quarter-fan-in' | undefined;
  /** `--rotary-base <X>`: the slowest rotation is 1 / X radians per position; 0: 1024 (default: 0). */
  rotaryBase?: number | undefined;
  /** `--window <N>`: most keys of a query, its own included, in every fourth layer (default: all). */
  window?: number | undefined;
  /** `--short-window <N>`: most keys of a query in the other layers (default: half of --window). */
  shortWindow?: number | undefined;
  /** `--skips <NAME>`: learned: layers add the embedding and outputs of the first half; none (default: none). */
  skips?: 'none' | 'learned' | undefined;
  /** `--value-embeddings <N>`: tables added to values of the first and last N layers (default: 0). */
  valueEmbeddings?: number | undefined;
  /** `--document-mask`: attend only within a document, begun by end of text. */
  documentMask?: boolean | undefined;
  /** `--data <DIR>`: folder of token shards (see prepro) (default: data/tinyshakespeare). */
  data?: string | undefined;
  /** `--order <NAME>`: sequence: single sequences shuffled; llmc: llm.c's shuffle; file: no shuffle (default: sequence). */
  order?: 'llmc' | 'file' | 'sequence' | undefined;
  /** `--seed <N>`: seed of the initial weights and the order of batches (default: 42). */
  seed?: number | undefined;
  /** `--overfit-batch`: train on the first batch only. */
  overfitBatch?: boolean | undefined;
  /** `--batch <B|auto>`: sequences per GPU in one forward and backward pass; auto: as many as fit (default: 4). */
  batch?: number | 'auto' | undefined;
  /** `--seq <T>`: tokens in a sequence (default: 1024 on CUDA, 64 on CPU). */
  sequence?: number | undefined;
  /** `--total-batch <TOKENS>`: tokens in an optimizer step, reached by gradient accumulation (default: batch x seq x gpus). */
  totalBatch?: number | undefined;
  /** `--window-schedule <NAME>`: constant; linear: windows grow over the steps, 128 tokens at a time (default: constant). */
  windowSchedule?: 'constant' | 'linear' | undefined;
  /** `--lr <X>`: peak learning rate (default: by width: d6 0.0005, d12 0.00035; from weights 0.00003). */
  learningRate?: number | undefined;
  /** `--warmup <N>`: steps of linear warmup (default: a quarter of the steps, at most 500; from weights 0). */
  warmup?: number | undefined;
  /** `--schedule <NAME>`: how the rate falls: cosine, linear, constant; wsd, trapezoid: flat, then down (default: cosine; from weights constant). */
  schedule?: 'cosine' | 'linear' | 'constant' | 'wsd' | 'trapezoid' | undefined;
  /** `--final-lr-frac <X>`: learning rate at the end of --schedule, as a share of --lr; 1: no decay (default: constant 1, cosine 0.1, linear 0, wsd 0, trapezoid 0). */
  finalLearningRateFraction?: number | undefined;
  /** `--decay-frac <X>`: share of the steps, at the end, in which wsd or trapezoid (linearly) falls (default: 0.2). */
  decayFraction?: number | undefined;
  /** `--optimizer <NAME>`: adamw, or muon: Muon for the blocks' matrices, AdamW for all other parameters (default: adamw). */
  optimizer?: 'adamw' | 'muon' | undefined;
  /** `--embedding-lr <X>`: AdamW's peak learning rate for embeddings; follows the schedule of --lr (default: --lr). */
  embeddingLearningRate?: number | undefined;
  /** `--head-lr <X>`: AdamW's peak learning rate for an untied head; follows the schedule of --lr (default: --lr). */
  headLearningRate?: number | undefined;
  /** `--muon-lr <X>`: Muon's peak learning rate; it follows the schedule of --lr (default: 0.02). */
  muonLearningRate?: number | undefined;
  /** `--muon-momentum <X>`: share of Muon's average of gradients that a step keeps (default: 0.95). */
  muonMomentum?: number | undefined;
  /** `--muon-momentum-warmup <N>`: steps in which the momentum goes from 0.85 to --muon-momentum; 0: none (default: 0). */
  muonMomentumWarmup?: number | undefined;
  /** `--newton-schulz <NAME>`: how Muon makes a momentum orthogonal: polar-express, quintic, cubic (default: polar-express). */
  newtonSchulz?: 'polar-express' | 'quintic' | 'cubic' | undefined;
  /** `--weight-decay <X>`: weight decay of matrices (default: 0.1; from weights 0). */
  weightDecay?: number | undefined;
  /** `--muon-weight-decay <X>`: weight decay of the matrices that Muon updates; of others: --weight-decay (default: --weight-decay). */
  muonWeightDecay?: number | undefined;
  /** `--beta1 <X>`: share of AdamW's first moment that a step keeps (default: 0.9). */
  beta1?: number | undefined;
  /** `--beta2 <X>`: share of AdamW's second moment that a step keeps (default: 0.95). */
  beta2?: number | undefined;
  /** `--eps <X>`: AdamW's epsilon, added to the root of the second moment (default: 1e-8). */
  eps?: number | undefined;
  /** `--grad-clip <X>`: largest gradient norm; 0: no clipping (default: 1). */
  gradientClip?: number | undefined;
  /** `--skip-spikes <Z>`: skip updates with loss or norm Z sigma over the mean of the last 128 steps. */
  skipSpikes?: number | undefined;
  /** `--device <NAME>`: auto, cuda, cuda:N, cpu (default: auto). */
  device?: string | undefined;
  /** `--dtype <NAME>`: fp32, bf16, tf32 (GPUs), fp8 (GPUs from capability 8.9; CPUs slowly) (default: bf16 on CUDA and on CPUs with AMX, else fp32). */
  dtype?: 'fp32' | 'tf32' | 'bf16' | 'fp8' | undefined;
  /** `--threads <N>`: CPU threads; 0: GPT2_THREADS, else all cores (default: 0). */
  threads?: number | undefined;
  /** `--recompute <WHAT>`: activation checkpointing: what backward recomputes: none, gelu, block (default: none). */
  recompute?: 'none' | 'gelu' | 'block' | undefined;
  /** `--gpus <N>`: GPUs of this machine, one process each (many machines: docs/ranks.md) (default: 1). */
  ranks?: number | undefined;
  /** `--zero <0|1>`: with several GPUs: 1 divides the optimizer state, 0 keeps all of it on each (default: 1). */
  zero?: number | undefined;
  /** `--overlap <WHEN>`: sum gradients during backward: on, off, auto (on, except on fast NCCL links) (default: auto). */
  overlap?: 'auto' | 'on' | 'off' | undefined;
  /** `--kernel <FOLDER>`: your kernels that replace ops (docs/kernels.md); repeatable. */
  kernels?: readonly string[] | undefined;
  /** `--val-every <N>`: steps between validations; 0: none (default: 20). */
  valEvery?: number | undefined;
  /** `--val-tokens <N|all>`: tokens in a validation, as whole sequences spread evenly over the set (default: 80 sequences). */
  valTokens?: number | 'all' | undefined;
  /** `--val-steps <N>`: instead of --val-tokens, as llm.c: the set's first N batches of every GPU. */
  valSteps?: number | undefined;
  /** `--hellaswag-every <N>`: steps between evaluations on HellaSwag, also at the end; 0: none (default: 0). */
  hellaswagEvery?: number | undefined;
  /** `--hellaswag <FILE>`: file of questions for --hellaswag-every, in llm.c's format (default: data/hellaswag/hellaswag_val.bin). */
  hellaswag?: string | undefined;
  /** `--sample-every <N>`: steps between text samples; 0: none (default: 20). */
  sampleEvery?: number | undefined;
  /** `--log-every <N>`: steps between training lines in the terminal; log.jsonl has every step (default: 1). */
  logEvery?: number | undefined;
  /** `--save-every <N|TIME>`: steps or time (s, m, h) between checkpoints; 0: only at the end and on Ctrl-C (default: 10m). */
  saveEvery?: number | Time | undefined;
  /** `--keep <N>`: newest checkpoints to keep (default: all; of those that --save-every TIME makes, 2). */
  keep?: number | undefined;
  /** `--keep-every <M>`: with --keep: also keep the checkpoint of every M-th step. */
  keepEvery?: number | undefined;
  /** `--out <DIR>`: run folder: log, configuration, checkpoints (default: runs/<DATA>-<MODEL>-<TIME>). */
  out?: string | undefined;
  /** `--resume [auto]`: continue the run in --out from its newest valid checkpoint; auto: if any. */
  resume?: boolean | 'auto' | undefined;
  /** `--overwrite`: replace the run in --out; keep its log. */
  overwrite?: boolean | undefined;
  /** `--preset <NAME>`: options of a ready-made run (see gpt2 presets); --config and flags override it. */
  preset?: 'shakespeare-laptop' | 'gpt2-124m-fineweb' | 'finetune' | 'llmc-d6-fp32-b4-t64' | 'llmc-d12-fp32-b4-t64' | 'llmc-d12-fp32-b4-t1024' | 'llmc-d12-bf16-b4-t1024' | 'llmc-d12-fineweb10b-8xh100' | 'pytorch-d12-b4-t1024-tinyshakespeare' | 'pytorch-d6-b4-t64-tinyshakespeare' | 'pytorch-d6-fp32-b4-t64-moby-dick' | 'pytorch-laptop-moby-dick-1200' | 'pytorch-laptop-moby-dick-3000' | 'pytorch-laptop-tinyshakespeare-1200' | 'pytorch-laptop-tinyshakespeare-3000' | undefined;
  /** `--recipe <NAME>`: modern: a modern GPT (docs/recipe.md); windowed: with windows (docs/windows.md). */
  recipe?: 'modern' | 'windowed' | undefined;
  /** `--tokens <N>`: tokens to train on, as 1700000000 or 1.7B, instead of --steps. */
  tokens?: number | undefined;
  /** `--config <PATH>`: read options from a JSON file or a run's config.json; flags override it. */
  config?: string | undefined;
  /** `--stop-after <N>`: save and exit after N steps, counted from the run's first start. */
  stopAfter?: number | undefined;
  /** `--max-memory <GIB>`: most device memory to use, in GiB (default: all that is free). */
  maxMemory?: number | undefined;
  /** `--dry-run`: print steps, epochs, time and memory of the run; do not train. */
  dryRun?: boolean | undefined;
  /** `--for <GPU>`: --dry-run for a GPU that is not here: h100, h200, a100, 4090, or 24GB. */
  for?: string | undefined;
  /** `--serve [PORT]`: show the run in a browser while it trains (PORT 0: any free; absent: 8042). */
  serve?: number | undefined;
  /** `--serve-host <ADDRESS>`: address that --serve listens on; no password: all who reach it can read (default: 127.0.0.1). */
  serveHost?: string | undefined;
  /** `--tensorboard [DIR]`: write TensorBoard event files too (DIR absent: into the run folder). */
  tensorboard?: string | undefined;
  /** `--json`: print events as JSON lines on stdout, without progress. */
  json?: boolean | undefined;
};
