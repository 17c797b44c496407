// Replays a capture (the recorded weights, tokens and results of a failed step): computes the step again and compares the results.
import { gpt2Error, usageError } from '../../base/errors.ts';
import { type Recompute, recomputeNames } from '../../model/activation-tables.ts';
import { checkConfig } from '../../model/config.ts';
import { gib, memoryLimit } from '../../model/memory.ts';
import { Device, type Dtype } from '../../native/device.ts';
import { selectDevice } from '../../native/select-device.ts';
import { cardHashes, loadFolders } from '../../ops/kernels/card-hash.ts';
import { useCards } from '../../ops/kernels/use-cards.ts';
import { noUpdate } from '../../optimizer/assign.ts';
import { captured, gradientsHash, readBatches, readCapture } from '../../weights/checkpoint/capture.ts';
import { loadWeights } from '../../weights/checkpoint/read-checkpoint.ts';
import { neededBytes } from '../plan/plan-memory.ts';
import { createTraining } from '../step/training.ts';
import { describeFinding, locate } from './locate.ts';

export interface ReplayOptions {
  /** "auto", "cpu", "cuda", "cuda:N". Default: the kind of library that made the capture. */
  readonly device?: string;
  /** Default: the dtype of the capture. */
  readonly dtype?: Dtype;
  /** CPU threads; 0, the default, takes all cores. */
  readonly threads?: number;
  /** Folders with kernel cards; their kernels replace the library's kernels. */
  readonly kernels?: readonly string[];
}

/**
 * Computes the step of a capture again, without an update, and compares the results with the recorded results.
 * @param path folder of the capture
 * @throws UsageError for an invalid device; Gpt2Error for a capture that is damaged or does not fit the device
 */
export async function replay(path: string, options: ReplayOptions = {}) {
  // Check --device before reading the capture, because reading the capture of a large model takes long.
  if (options.device !== undefined) selectDevice(options.device);
  const capture = readCapture(path);
  const { manifest } = capture;
  const { batch: B, sequence: T, accumulation } = manifest;
  const config = checkConfig(manifest.model);
  if (T > config.context) throw usageError`${path} has sequences of ${T}, over the context of ${config.context}`;
  const batches = readBatches(capture);
  const cards = await loadFolders(options.kernels);
  const target = selectDevice(options.device ?? manifest.library);
  const dtype = options.dtype ?? manifest.dtype;
  using device = Device.open({ ...target, dtype, threads: options.threads, accumulates: accumulation > 1 });
  await useCards(device, cards);
  const sizes = { B, T, optimizer: noUpdate, rows: B * accumulation };
  const needed = (recompute: Recompute) => neededBytes(device, config, { ...sizes, recompute, cards });
  const limit = memoryLimit(device, undefined);
  // --recompute changes no bit of the results, so the replay takes the fastest setting that fits in memory.
  const recompute = recomputeNames.find((each) => needed(each) <= limit.bytes);
  if (recompute === undefined) {
    const least = Math.min(...recomputeNames.map(needed));
    throw gpt2Error`${path} needs ${gib(least)} of memory at least, ${limit.text}; ${limit.remedy}, or name another --device`;
  }
  const steps = { gradientClip: 0, windowsAt: () => manifest.windows };
  const { model, trainer } = createTraining(device, config, { ...sizes, recompute }, steps);
  loadWeights(capture, model);
  let next = 0;
  const { finding, result } = await locate(trainer, () => batches[next++]!, manifest.step);

  const describe = (found: typeof finding) => (found ? describeFinding(found) : 'every gradient finite');
  const pairs: [string, string | number, string | number][] = [
    ['kernels', cardHashes(cards) ?? 'of the library', manifest.cards ?? 'of the library'],
    ['loss', captured(result.loss), manifest.loss],
    ['norm', captured(result.norm), manifest.norm],
    ['finding:', describe(finding), describe(manifest.finding)],
    ['gradients', gradientsHash(trainer.gradients).slice(0, 12), manifest.gradients.slice(0, 12)],
  ];
  return {
    capture,
    ...result,
    /** Where the first number that is not finite appeared, as text; undefined if all are finite. */
    finding: finding && describeFinding(finding),
    /** Library, code path and dtype of the replay: "cuda sm90 bf16". */
    on: `${device.description.library} ${device.description.codePath} ${dtype}`,
    /** Differences from the capture, such as "norm 2.5 instead of NaN"; empty if kernels, results and gradients are equal. */
    differences: pairs
      .filter(([, found, wanted]) => found !== wanted)
      .map(([what, found, wanted]) => `${what} ${found} instead of ${wanted}`),
  };
}
