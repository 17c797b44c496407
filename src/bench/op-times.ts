// Each op of a training step by itself, on the step's own tensors, layer after layer: how long it takes, how often the step
// calls it, and the operations and bytes that it cannot do without. Gradients are overwritten, as in a first micro-batch.
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type Tensor } from '../native/buffer.ts';
import {
  adamw,
  attentionBackward,
  attentionForward,
  classifier,
  embeddingBackward,
  embeddingForward,
  globalNorm,
  layernormBackward,
  layernormForward,
  lossSum,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulResidualForward,
} from '../ops/ops.generated.ts';
import type { Trainer } from '../train/trainer.ts';
import { timeOnDevice } from './timing.ts';

export interface OpTime {
  readonly name: string;
  /** Times a step runs it. */
  readonly calls: number;
  /** Of one call. */
  readonly ms: number;
  /** Multiplications and additions of one call's products; 0 for ops that only move data. */
  readonly flops: number;
  /** Each input read once and each output written once, in one call. */
  readonly bytes: number;
}

interface Case {
  readonly name: string;
  readonly calls: number;
  readonly flops?: number;
  /** Tensors read and written, one mention for each. */
  readonly moves: readonly Tensor[];
  readonly run: () => void;
}

/** Times every op of `trainer`'s step. It leaves weights, moments and gradients changed. */
export async function timeOps(trainer: Trainer): Promise<OpTime[]> {
  const { device } = trainer.model;
  const least = device.description.library === 'cuda' ? 20 : 5;
  const times: OpTime[] = [];
  const step = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
  // Learning rate and corrections; and whatever the norm, adamw updates.
  step.write(Float32Array.from([1e-4, 1, 1]));
  step.write(Float32Array.of(1), GPT2_STEP.GPT2_STEP_UPDATED);
  const result = allocateTensor(device, 'step block', 'fp32', [GPT2_STEP.GPT2_STEP_SIZE]);
  // Layer after layer, as in a step: one layer's tensors again and again might stay in a cache.
  const layers = Array.from({ length: trainer.model.config.layers }, (_, layer) =>
    casesOf(trainer, layer, { step, result }),
  );
  for (const [index, { name, calls, flops = 0, moves }] of layers[0]!.entries()) {
    let next = 0;
    const ms = await timeOnDevice(device, () => layers[next++ % layers.length]![index]!.run(), least);
    times.push({ name, calls, ms, flops, bytes: moves.reduce((sum, tensor) => sum + tensor.bytes, 0) });
  }
  return times;
}

/** `step` is what adamw reads, `result` the block that loss and norm go to. */
function casesOf(
  { model, gradients, m, v, options }: Trainer,
  index: number,
  { step, result }: { step: Tensor; result: Tensor },
): Case[] {
  const { device, config, weights, masters } = model;
  const { batch: B, sequence: T, accumulation } = options;
  const { channels: C, layers: L, heads: NH, vocabularySize: vocabulary } = config;
  const batch = model.activations.at(B, T);
  if (!batch.backward) throw new Error('ops are timed on a model made for training');
  const { tokens, targets, embedded, lnf, lnfMean, lnfRstd, losses } = batch.model;
  const { dresidual, dbranch, dqkv, dfc } = batch.backward;
  const [layer, w, d] = [batch.layers[index]!, weights.layer(index), gradients.layer(index)];
  const [wte, wpe] = [weights.get('wte'), weights.get('wpe')];
  const N = B * T;
  const [rows, padded] = batch.model.logits.shape as [number, number];
  const logits = batch.model.logits;
  const chunk = (tensor: Tensor): Tensor => {
    const width = tensor.count / N;
    return tensor.view(width === 1 ? [rows] : [rows, width]);
  };
  const kinds = ['matrices', 'vectors'] as const;
  const inLayers = L * accumulation;
  const inChunks = (N / rows) * accumulation;
  const product = (O: number, K: number, n = N) => 2 * n * O * K;
  // Causal: half of the scores.
  const attentionProducts = (count: number) => count * B * NH * T * T * (C / NH);
  const apart = dqkv.view([B, T, C]);

  const linear = (
    name: string,
    out: Tensor,
    input: Tensor,
    weight: Tensor,
    run: () => void,
    also: Tensor[] = [],
  ): Case => ({
    name,
    calls: inLayers,
    flops: product(weight.shape[0]!, weight.shape[1]!),
    moves: [out, input, weight, ...also],
    run,
  });
  const weightGradient = (name: string, dweight: Tensor, dbias: Tensor, dout: Tensor, input: Tensor): Case =>
    linear(name, dout, input, dweight, () =>
      matmulBackwardWeight(device, { dweight, dbias, dout, in: input, accumulate: false }),
    );

  return [
    {
      name: 'embedding forward',
      calls: accumulation,
      moves: [embedded, embedded],
      run: () => embeddingForward(device, { out: embedded, tokens, wte, wpe, V: vocabulary }),
    },
    {
      name: 'layernorm forward',
      calls: (2 * L + 1) * accumulation,
      moves: [layer.ln1, embedded],
      run: () =>
        layernormForward(device, {
          out: layer.ln1,
          mean: layer.ln1Mean,
          rstd: layer.ln1Rstd,
          in: embedded,
          weight: w.ln1w,
          bias: w.ln1b,
        }),
    },
    linear('qkv forward', layer.qkv, layer.ln1, w.qkvw, () =>
      matmulForward(device, { out: layer.qkv, in: layer.ln1, weight: w.qkvw, bias: w.qkvb }),
    ),
    {
      name: 'attention forward',
      calls: inLayers,
      flops: attentionProducts(2),
      moves: [layer.attention, layer.qkv],
      run: () => attentionForward(device, { out: layer.attention, lse: layer.lse, qkv: layer.qkv }),
    },
    linear(
      'attproj forward + residual',
      layer.residual2,
      layer.attention,
      w.attprojw,
      () =>
        matmulResidualForward(device, {
          out: layer.residual2,
          in: layer.attention,
          weight: w.attprojw,
          bias: w.attprojb,
          residual: embedded,
        }),
      [embedded],
    ),
    linear(
      'fc forward + gelu',
      layer.fc,
      layer.ln2,
      w.fcw,
      () =>
        matmulGeluForward(device, {
          out: layer.gelu,
          pre: layer.fc,
          in: layer.ln2,
          weight: w.fcw,
          bias: w.fcb,
        }),
      [layer.gelu],
    ),
    linear(
      'fcproj forward + residual',
      layer.residual3,
      layer.gelu,
      w.fcprojw,
      () =>
        matmulResidualForward(device, {
          out: layer.residual3,
          in: layer.gelu,
          weight: w.fcprojw,
          bias: w.fcprojb,
          residual: layer.residual2,
        }),
      [layer.residual2],
    ),
    {
      name: 'classifier',
      calls: inChunks,
      flops: 3 * product(padded, C, rows),
      moves: [logits, logits, logits, chunk(lnf), chunk(lnf), chunk(dbranch), wte, wte, gradients.get('wte')],
      run: () =>
        classifier(device, {
          losses: chunk(losses),
          din: chunk(dbranch),
          dweight: gradients.get('wte'),
          logits,
          in: chunk(lnf),
          weight: wte,
          targets: chunk(targets),
          V: vocabulary,
          dloss: 1 / N,
          accumulate: false,
        }),
    },
    {
      name: 'layernorm backward',
      calls: (2 * L + 1) * accumulation,
      moves: [apart, dbranch, dresidual, lnf],
      // Not in place, as in the step, so that repeating it does not let the sums grow.
      run: () =>
        layernormBackward(device, {
          din: apart,
          dweight: gradients.get('lnfw'),
          dbias: gradients.get('lnfb'),
          dout: dbranch,
          dresidual,
          in: lnf,
          weight: weights.get('lnfw'),
          mean: lnfMean,
          rstd: lnfRstd,
          accumulate: false,
        }),
    },
    weightGradient('fcproj backward weight', d.fcprojw, d.fcprojb, dresidual, layer.gelu),
    linear(
      'fcproj backward input + gelu',
      dfc,
      dresidual,
      w.fcprojw,
      () => matmulGeluBackwardInput(device, { din: dfc, dout: dresidual, weight: w.fcprojw, pre: layer.fc }),
      [layer.fc],
    ),
    weightGradient('fc backward weight', d.fcw, d.fcb, dfc, layer.ln2),
    linear('fc backward input', dbranch, dfc, w.fcw, () =>
      matmulBackwardInput(device, { din: dbranch, dout: dfc, weight: w.fcw }),
    ),
    weightGradient('attproj backward weight', d.attprojw, d.attprojb, dresidual, layer.attention),
    linear('attproj backward input', dbranch, dresidual, w.attprojw, () =>
      matmulBackwardInput(device, { din: dbranch, dout: dresidual, weight: w.attprojw }),
    ),
    {
      name: 'attention backward',
      calls: inLayers,
      flops: attentionProducts(5),
      moves: [dqkv, layer.qkv, dbranch, layer.attention],
      run: () =>
        attentionBackward(device, { dqkv, dout: dbranch, out: layer.attention, qkv: layer.qkv, lse: layer.lse }),
    },
    weightGradient('qkv backward weight', d.qkvw, d.qkvb, dqkv, layer.ln1),
    linear('qkv backward input', dbranch, dqkv, w.qkvw, () =>
      matmulBackwardInput(device, { din: dbranch, dout: dqkv, weight: w.qkvw }),
    ),
    {
      name: 'embedding backward',
      calls: accumulation,
      moves: [dresidual, dresidual],
      run: () =>
        embeddingBackward(device, {
          dwte: gradients.get('wte'),
          dwpe: gradients.get('wpe'),
          dout: dresidual,
          tokens,
          V: vocabulary,
          accumulate: false,
        }),
    },
    {
      name: 'loss sum',
      calls: accumulation,
      moves: [losses],
      run: () => lossSum(device, { step: result, losses, scale: 1 / N, accumulate: false }),
    },
    {
      name: 'global norm',
      calls: 1,
      moves: [gradients.matrices, gradients.vectors],
      run: () =>
        globalNorm(device, { step: result, matrices: gradients.matrices, vectors: gradients.vectors, maxNorm: 1 }),
    },
    {
      name: 'adamw',
      calls: 1,
      // Gradient read; moments and masters read and written; weights written where they are not the masters.
      moves: kinds.flatMap((kind) => [
        gradients[kind],
        ...[m, v, masters].flatMap((arena) => [arena[kind], arena[kind]]),
        ...(weights === masters ? [] : [weights[kind]]),
      ]),
      run: () => {
        for (const kind of kinds) {
          adamw(device, {
            weight: weights[kind],
            master: masters[kind],
            m: m[kind],
            v: v[kind],
            gradient: gradients[kind],
            step,
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-8,
            weightDecay: kind === 'matrices' ? 0.1 : 0,
          });
        }
      },
    },
  ];
}
