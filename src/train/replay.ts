// Replays a capture: the same weights and tokens through the same micro-batches, and whether the same came out.
import { captured, type FoundCapture, gradientsHash, readBatches, readCapture } from '../checkpoint/capture.ts';
import { loadWeights } from '../checkpoint/read.ts';
import { Gpt2Error, UsageError } from '../errors.ts';
import { type Recompute, recomputeNames } from '../model/activations.ts';
import { checkConfig } from '../model/config.ts';
import { gib, memoryLimit } from '../model/memory.ts';
import { createModel } from '../model/model.ts';
import { Device, type Dtype } from '../native/device.ts';
import { selectDevice } from '../native/select-device.ts';
import { describeFinding, locate } from './locate.ts';
import { neededBytes } from './memory.ts';
import { Trainer } from './trainer.ts';

export interface ReplayOptions {
  /** "auto", "cpu", "cuda", "cuda:N". Default: what it was captured on. */
  readonly device?: string;
  /** Default: the capture's. */
  readonly dtype?: Dtype;
  /** CPU threads; 0, the default, takes all cores. */
  readonly threads?: number;
}

export interface Replayed {
  readonly capture: FoundCapture;
  readonly loss: number;
  readonly norm: number;
  /** Where the first number that is not finite came up, in words; undefined if each is finite. */
  readonly finding: string | undefined;
  /** "cuda sm90 bf16" */
  readonly on: string;
  /** What is other than in the capture, each "norm 2.5 instead of NaN"; none: it is the same to the last bit. */
  readonly differences: readonly string[];
}

/**
 * Computes a captured step again.
 * @throws UsageError for a device that cannot be; Gpt2Error for a capture that is damaged or does not fit the device
 */
export async function replay(path: string, options: ReplayOptions = {}): Promise<Replayed> {
  // What the command line alone says wrong comes first.
  if (options.device !== undefined) selectDevice(options.device);
  const capture = readCapture(path);
  const { manifest } = capture;
  const { batch: B, sequence: T, accumulation } = manifest;
  const config = checkConfig(manifest.model);
  if (T > config.context) throw new UsageError(`${path} has sequences of ${T}, over the context of ${config.context}`);
  const batches = readBatches(capture);
  const target = selectDevice(options.device ?? manifest.library);
  const dtype = options.dtype ?? manifest.dtype;
  using device = Device.open({ ...target, dtype, threads: options.threads, accumulates: accumulation > 1 });
  const needed = (recompute: Recompute) => neededBytes(device, config, { B, T, rows: B * accumulation, recompute });
  const limit = memoryLimit(device, undefined);
  // What was kept changes no bit: a run of any --recompute is replayed by the fastest that fits.
  const recompute = recomputeNames.find((each) => needed(each) <= limit.bytes);
  if (recompute === undefined) {
    const least = Math.min(...recomputeNames.map(needed));
    throw new Gpt2Error(
      `${path} needs ${gib(least)} of memory at least, ${limit.text}; ${limit.mend}, or name another --device`,
    );
  }
  const model = createModel(device, config, { B, T, purpose: 'training', recompute });
  const trainer = new Trainer(model, { batch: B, sequence: T, accumulation, weightDecay: 0, gradientClip: 0 });
  loadWeights(capture, model);
  let next = 0;
  const { finding, result } = await locate(trainer, () => batches[next++]!);

  const told = (found: typeof finding) => (found ? describeFinding(found) : 'every gradient finite');
  const pairs: [string, string | number, string | number][] = [
    ['loss', captured(result.loss), manifest.loss],
    ['norm', captured(result.norm), manifest.norm],
    ['finding:', told(finding), told(manifest.finding)],
    ['gradients', gradientsHash(trainer.gradients).slice(0, 12), manifest.gradients.slice(0, 12)],
  ];
  return {
    capture,
    ...result,
    finding: finding && describeFinding(finding),
    on: `${device.description.library} ${device.description.codePath} ${dtype}`,
    differences: pairs
      .filter(([, found, wanted]) => found !== wanted)
      .map(([what, found, wanted]) => `${what} ${found} instead of ${wanted}`),
  };
}
