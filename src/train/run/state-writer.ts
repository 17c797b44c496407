// Writes a run's state as a checkpoint: from a copy in host memory, on a thread, while training continues; or, if there is too
// little host memory for a copy, from the device while training waits. src/weights/checkpoint has the format.
import { Gpt2Error, NativeError } from '../../base/errors.ts';
import type { Position } from '../../data/batches/order.ts';
import { gib } from '../../model/memory.ts';
import { checkpointsFolder } from '../../runs/paths.ts';
import { WriterError } from '../../weights/checkpoint/background.ts';
import type { Keeping } from '../../weights/checkpoint/prune.ts';
import {
  type CheckpointHead,
  type SaveResult,
  saveState,
  stateInDevice,
  type TidyResult,
  tidy,
} from '../../weights/checkpoint/write.ts';
import { WeightsError } from '../../weights/files/layout.ts';
import type { Run } from './run.ts';
import { shardRecord } from './same-inputs.ts';

/** A function that runs work: once, or again and again until it succeeds. */
export type Repeat = <R>(work: () => R | Promise<R>) => Promise<R>;
export const once: Repeat = async (work) => work();

/** A save of the state after `step` updates. */
interface Save {
  readonly step: number;
  /** Position of the next micro-batch. */
  readonly position: Position;
  /** Whether the state stays unchanged until it is written, because training waits. */
  readonly inPlace: boolean;
  /** Whether the save is due because the time of --save-every has passed. */
  readonly timed: boolean;
}

/** The fields of a run that its saves need. */
export type SavedRun = Pick<Run, 'options' | 'tokenizer' | 'ranks' | 'data' | 'trained' | 'folder'>;

export function stateWriterOf({ options, tokenizer, data, trained, folder }: SavedRun, notice: (text: string) => void) {
  const { model, trainer, writer } = trained;
  const keeping = keepingOf(options);
  const reported = new Set<string>();
  let copies = true;

  /** Runs `copy`. If host memory is too small, returns undefined, and saves write from the device; with ZeRO-1, throws. */
  const tryCopy = <R>(copy: () => R): R | undefined => {
    if (!copies) return undefined;
    try {
      return copy();
    } catch (error) {
      if (!(error instanceof NativeError) || error.status !== 'GPT2_OUT_OF_MEMORY' || model.sharding) throw error;
      copies = false;
      notice(
        `too little host memory for a copy of ${gib(writer.copyBytes)}: training waits while each checkpoint is written`,
      );
      return undefined;
    }
  };

  /** Reports each failure to remove files only once, because every later save meets the failure again. */
  const reportFailures = ({ clearFailure, pruneFailure }: TidyResult): void => {
    for (const failure of [clearFailure, pruneFailure]) {
      if (failure === undefined || reported.has(failure)) continue;
      reported.add(failure);
      notice(`${failure}; training continues`);
    }
  };

  return {
    /** Allocates the host copy. @throws NativeError if memory is too small and other ranks' state must be received */
    prepare: (): void => tryCopy(() => writer.prepare()),

    /** Writes a checkpoint and removes checkpoints that need not be kept. `repeat` may retry after a disk error. @throws Gpt2Error */
    async write({ step, position, inPlace, timed }: Save, repeat = once): Promise<SaveResult> {
      const { program, configuration, log } = folder;
      const head: CheckpointHead = {
        ...{ folder: checkpointsFolder(folder.out), step },
        ...(tokenizer?.file === undefined ? {} : { tokenizer: tokenizer.file }),
        manifest: {
          ...{ program, configuration, position, logBytes: log.bytes, codePath: model.device.description.codePath },
          shards: data.loader.shards.map(shardRecord),
          ...(timed ? { timed } : {}),
        },
      };
      const direct = async () => saveState(head, stateInDevice(model, trainer.optimizerState.copies), keeping);
      const begun = tryCopy(() => writer.write(head, keeping, { inPlace }));
      let attempt = () => begun ?? direct();
      return repeat(async () => {
        const result = await attempt().catch((error) => {
          // If the writer's thread has failed while training waits, write the unchanged state from the device on this thread.
          if (inPlace && error instanceof WriterError && !model.sharding) return direct();
          throw error;
        });
        reportFailures(result);
        if (result.failure === undefined) return result;
        // Retry from the host copy, because other ranks send their state only once.
        if (begun) attempt = () => writer.again();
        throw new (result.isBroken ? WeightsError : Gpt2Error)(result.failure);
      });
    },

    /** Removes files of interrupted saves, and checkpoints that need not be kept, as `write` does. */
    tidy: (): void => reportFailures(tidy(checkpointsFolder(folder.out), keeping)),
  };
}

/** The rule for removing checkpoints. Without --keep, only checkpoints of timed saves are removed, all but the two newest. */
const keepingOf = ({ keep, keepEvery }: Run['options']): Keeping =>
  keep === undefined ? { keep: 2, onlyTimed: true } : { keep, keepEvery };
