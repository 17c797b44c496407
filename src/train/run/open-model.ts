// Allocates a run's model and trainer on its device, and fills them: initial weights, weights of a file, or a checkpoint.
import { initializeWeights } from '../../model/initialize.ts';
import { growingWindows } from '../../model/mask.ts';
import type { Device } from '../../native/device.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';
import { reserveScratch } from '../../ops/kernels/use-cards.ts';
import type { Configuration } from '../../options/table.ts';
import { BackgroundWriter } from '../../weights/checkpoint/background.ts';
import { loadOptimizer } from '../../weights/checkpoint/read-checkpoint.ts';
import { cardNotices, checkMemory, dtypeNotices, sizesOf, trainingPlan } from '../plan/plan-memory.ts';
import { createTraining } from '../step/training.ts';
import { connectDevices } from './connect.ts';
import type { Opening } from './opening.ts';

export type RunModel = Readonly<Awaited<ReturnType<typeof openModel>>>;

/** Opens the model of a run. @throws Gpt2Error or NativeError if ranks cannot connect, memory is too small, or weights are unreadable */
export async function openModel(
  { resolved, ranks, notice }: Opening,
  { device, cards, asked }: { device: Device; cards: readonly LoadedCard[]; asked: Configuration },
) {
  const { options, config, tokenizer, checkpoint, start, optimizer } = resolved;
  // Connections between ranks take device memory, so they are opened before the memory check.
  const connection = ranks && (await connectDevices(ranks, device, options.overlap, notice));
  const { communicator, overlap = options.overlap } = connection ?? {};
  const sizes = { ...sizesOf(options, { tokenizer, cards, optimizer }), B: options.batch };
  checkMemory(device, config, { ...sizes, parts: communicator?.parts });
  reserveScratch(device, trainingPlan(device, config, sizes));
  for (const sentence of [...dtypeNotices(device), ...cardNotices(device, config, sizes)]) notice(sentence);
  const steps = { communicator, gradientClip: options.gradientClip, overlapsBackward: overlap === 'on' };
  const windowsAt =
    options.windowSchedule === 'linear' ? (step: number) => growingWindows(config, step, asked.steps) : undefined;
  const { model, trainer, cache } = createTraining(device, config, sizes, { ...steps, windowsAt });
  const { copies } = trainer.optimizerState;
  const writer = new BackgroundWriter(model, copies);
  // Rank 0 saves other ranks' state through host memory. Check for enough memory now: the first save may come hours later.
  if (model.sharding && ranks?.isRoot) writer.checkMemory();
  if (start) start.load(model);
  else initializeWeights(model, options.seed);
  if (checkpoint) loadOptimizer(checkpoint, model, copies);
  // Record the measured choice of --overlap auto, so that a resumed run makes the same choice.
  const configuration: Configuration = { ...asked, overlap };
  return { model, trainer, writer, cache, configuration };
}
