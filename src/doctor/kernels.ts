// One real launch of every kernel family on a device, small and looked at: what it gives must be finite and not left as it was.
import { Gpt2Error } from '../errors.ts';
import { GPT2_STEP } from '../native/bindings.generated.ts';
import { allocateTensor, type ElementType, type Tensor } from '../native/buffer.ts';
import { Device, type Dtype } from '../native/device.ts';
import type { LibraryKind } from '../native/library.ts';
import {
  adamw,
  attentionBackward,
  attentionCachedForward,
  attentionCachedScratch,
  attentionForward,
  attentionScratch,
  classifier,
  classifierScratch,
  crossEntropy,
  embeddingBackward,
  embeddingForward,
  embeddingScratch,
  geluBackward,
  geluForward,
  globalNorm,
  globalNormScratch,
  layernormBackward,
  layernormForward,
  layernormMatmulForward,
  layernormMatmulGeluForward,
  layernormMatmulScratch,
  layernormScratch,
  lossSum,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulResidualForward,
  matmulScratch,
  residualForward,
  sample,
  sampleScratch,
} from '../ops/ops.generated.ts';
import { isInstalled } from '../package-root.ts';
import { type Check, failed, ok } from './check.ts';

const [B, T, C, NH, V, Vp] = [2, 64, 128, 2, 100, 128];
const N = B * T;

interface Family {
  readonly name: string;
  readonly run: () => void;
  /** What it has to have written. */
  readonly outputs: readonly Tensor[];
}

/** Launches every family. */
export async function checkKernels(kind: LibraryKind, dtype: Dtype): Promise<Check> {
  const name = `kernels of ${kind} ${dtype}`;
  // A package has no tests.
  const look = isInstalled ? '' : `, then scripts/test${kind === 'cuda' ? '-gpu' : ''} for what is wrong`;
  const mend = `npm run build:${kind}${look}`;
  try {
    using device = Device.open({ kind, dtype });
    const begin = performance.now();
    const families = familiesOf(device);
    for (const { name: family, run, outputs } of families) {
      try {
        for (const output of outputs) output.write(bytesFilled(output));
        run();
        await device.finished();
      } catch (error) {
        if (!(error instanceof Gpt2Error)) throw error;
        return failed(name, `${family}: ${error.message}`, mend);
      }
      const wrong = outputs.find((output) => !isWritten(output));
      if (wrong) return failed(name, `${family}: ${wrong.name} is not finite, or was not written`, mend);
    }
    const ms = (performance.now() - begin).toFixed(0);
    return ok(name, `${families.map((family) => family.name).join(', ')}: ${families.length} launched in ${ms} ms`);
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    return failed(name, error.message, mend);
  }
}

/** NaN in fp32 and in bf16: what no kernel leaves where it has been. */
function bytesFilled({ type, count }: Tensor): Float32Array | Uint16Array {
  return type === 'bf16' ? new Uint16Array(count).fill(0x7fc0) : new Float32Array(count).fill(Number.NaN);
}

function isWritten(tensor: Tensor): boolean {
  const values = tensor.read();
  if (tensor.type === 'bf16') return values.every((bits) => (bits & 0x7f80) !== 0x7f80);
  return values.every(Number.isFinite);
}

function familiesOf(device: Device): Family[] {
  const { elementType: type, gradientType } = device;
  const tensor = (name: string, of: ElementType, ...shape: number[]) => allocateTensor(device, name, of, shape);
  let seed = 1;
  const drawn = (name: string, of: ElementType, ...shape: number[]): Tensor => {
    const made = tensor(name, of, ...shape);
    const values = Float32Array.from({ length: made.count }, () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647 - 0.5;
    });
    const upper = of === 'bf16' && new Uint16Array(values.buffer).filter((_, index) => index % 2 === 1);
    made.write(upper || values);
    return made;
  };
  const ids = (name: string) => {
    const made = tensor(name, 'int32', B, T);
    made.write(Int32Array.from({ length: N }, (_, index) => (index * 7) % V));
    return made;
  };
  device.reserveWorkspace(
    Math.max(
      embeddingScratch(device, { B, T, C, V }),
      layernormScratch(device, { N, C }),
      matmulScratch(device, { N, C, O: 3 * C, gradients: true }),
      attentionScratch(device, { B, T, C, NH }),
      layernormMatmulScratch(device, { N, C, O: C }),
      attentionCachedScratch(device, { S: T }),
      sampleScratch(device, { B, V }),
      classifierScratch(device, { N, C, Vp, gradients: true }),
      globalNormScratch(device, { matrixCount: C * C, vectorCount: C }),
    ),
  );
  const [tokens, targets] = [ids('tokens'), ids('targets')];
  const [x, d] = [drawn('x', type, B, T, C), drawn('d', type, B, T, C)];
  const [wte, wpe] = [drawn('wte', type, Vp, C), drawn('wpe', type, T, C)];
  const [ln, bias] = [drawn('ln', type, C), drawn('bias', type, C)];
  const [y, din] = [tensor('out', type, B, T, C), tensor('din', type, B, T, C)];
  const [mean, rstd, losses] = [
    tensor('mean', 'fp32', B, T),
    tensor('rstd', 'fp32', B, T),
    tensor('losses', 'fp32', B, T),
  ];
  const [dln, dbias] = [tensor('dweight', 'fp32', C), tensor('dbias', 'fp32', C)];
  const weight = drawn('weight', type, C, C);
  const [dweight, dwte] = [tensor('dweight', gradientType, C, C), tensor('dwte', gradientType, Vp, C)];
  const dwpe = tensor('dwpe', gradientType, T, C);
  const [pre, gelu] = [tensor('pre', type, B, T, C), tensor('gelu', type, B, T, C)];
  const qkv = drawn('qkv', type, B, T, 3 * C);
  const [dqkv, lse] = [tensor('dqkv', type, B, T, 3 * C), tensor('lse', 'fp32', B, NH, T)];
  const logits = drawn('logits', type, N, Vp);
  const rows = (of: Tensor) => of.view([N, of.count / N]);
  const master = drawn('master', 'fp32', C * C);
  const [m, v] = [drawn('m', 'fp32', C * C), tensor('v', 'fp32', C * C)];
  const step = tensor('step block', 'fp32', GPT2_STEP.GPT2_STEP_SIZE);
  step.write(new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(1));
  const gradient = drawn('gradient', gradientType, C * C);
  const copy = type === 'fp32' ? master : tensor('weight', type, C * C);
  const [keys, values] = [tensor('keys', type, B, NH, T, C / NH), tensor('values', type, B, NH, T, C / NH)];
  const [positions, seeds] = [tensor('positions', 'int32', B), tensor('seeds', 'int32', B)];
  const texts = tensor('texts', 'int32', B, T + 1);
  texts.write(new Int32Array(B * (T + 1)).fill(-1));
  const accumulate = false;
  return [
    {
      name: 'embedding',
      outputs: [y, dwpe],
      run: () => {
        embeddingForward(device, { out: y, tokens, wte, wpe, V: V });
        embeddingBackward(device, { dwte, dwpe, dout: d, tokens, V: V, accumulate });
      },
    },
    {
      name: 'layernorm',
      outputs: [y, mean, rstd, din, dln, dbias],
      run: () => {
        layernormForward(device, { out: y, mean, rstd, in: x, weight: ln, bias });
        const saved = { in: x, weight: ln, mean, rstd };
        layernormBackward(device, { din: din, dweight: dln, dbias, dout: d, dresidual: null, ...saved, accumulate });
      },
    },
    {
      name: 'matmul',
      outputs: [y, pre, gelu, din, dweight, dbias],
      run: () => {
        matmulForward(device, { out: y, in: x, weight, bias });
        matmulResidualForward(device, { out: y, in: x, weight, bias, residual: d });
        matmulGeluForward(device, { out: gelu, pre, in: x, weight, bias });
        matmulBackwardInput(device, { din: din, dout: d, weight });
        matmulGeluBackwardInput(device, { din: din, dout: d, weight, pre });
        matmulBackwardWeight(device, { dweight, dbias, dout: d, in: x, accumulate });
      },
    },
    {
      name: 'attention',
      outputs: [y, lse, dqkv],
      run: () => {
        attentionForward(device, { out: y, lse, qkv });
        attentionBackward(device, { dqkv, dout: d, out: y, qkv, lse });
      },
    },
    {
      name: 'layernorm-matmul',
      outputs: [y, pre, gelu],
      run: () => {
        const normed = { in: x, normWeight: ln, normBias: bias, weight, bias };
        layernormMatmulForward(device, { out: y, ...normed });
        layernormMatmulGeluForward(device, { out: gelu, pre, ...normed });
      },
    },
    {
      name: 'attention-cached',
      outputs: [y, keys, values],
      run: () => {
        positions.write(new Int32Array(B));
        attentionCachedForward(device, { out: y, keys, values, qkv, positions });
      },
    },
    {
      name: 'sample',
      outputs: [],
      run: () => {
        positions.write(new Int32Array(B));
        const choice = { temperature: 1, topK: 10, topP: 0.9 };
        sample(device, { tokens: texts, positions, seeds, logits: logits.view([B, Vp]), V: V, ...choice });
        const chosen = Array.from({ length: B }, (_, b) => (texts.read() as Int32Array)[b * (T + 1) + 1]!);
        if (!chosen.every((id) => id >= 0 && id < V)) throw new Gpt2Error(`the choices ${chosen}`);
      },
    },
    {
      name: 'gelu',
      outputs: [y, din],
      run: () => {
        geluForward(device, { out: y, in: x });
        geluBackward(device, { din: din, dout: d, in: x });
      },
    },
    { name: 'residual', outputs: [y], run: () => residualForward(device, { out: y, a: x, b: d }) },
    {
      name: 'cross-entropy',
      outputs: [losses],
      run: () => {
        const flat = { losses: losses.view([N]), targets: targets.view([N]), V: V };
        crossEntropy(device, { ...flat, dlogits: null, logits, dloss: 1 });
        lossSum(device, { step, losses, scale: 1 / N, accumulate });
      },
    },
    {
      name: 'classifier',
      outputs: [losses, din],
      run: () => {
        const flat = { losses: losses.view([N]), targets: targets.view([N]), din: rows(din), in: rows(x) };
        classifier(device, { ...flat, dweight: dwte, logits, weight: wte, V: V, dloss: 1 / N, accumulate });
      },
    },
    {
      name: 'global-norm',
      outputs: [],
      run: () => {
        globalNorm(device, { step, matrices: gradient, vectors: dbias, maxNorm: 1 });
        const block = step.read() as Float32Array;
        const norm = block[GPT2_STEP.GPT2_STEP_NORM]!;
        if (!(norm > 0 && norm < 1e6)) throw new Gpt2Error(`a norm of ${norm}`);
      },
    },
    {
      name: 'adamw',
      outputs: copy === master ? [] : [copy],
      run: () => {
        // Whatever the norm was: this is to update.
        step.write(new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(1));
        const scalars = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 };
        adamw(device, { weight: copy, master, m, v, gradient, step, ...scalars });
        if (!isWritten(master) || !isWritten(m) || !isWritten(v))
          throw new Gpt2Error('weights or moments are not finite');
      },
    },
  ];
}
