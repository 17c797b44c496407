// Opens everything a run needs, in the order in which mistakes are cheapest to find: options (settle.ts), data, run folder,
// device, model, weights. The loop over steps is in session.ts.
import { basename, join, resolve } from 'node:path';
import { type Loader, openLoader, planValidation } from '../../batches/loader.ts';
import { BackgroundWriter } from '../../checkpoint/background.ts';
import { checkpointHash, type FoundCheckpoint } from '../../checkpoint/directory.ts';
import { loadOptimizer } from '../../checkpoint/read.ts';
import { Gpt2Error, UsageError } from '../../errors.ts';
import type { Hellaswag } from '../../evaluate/hellaswag.ts';
import { openLivePage } from '../../live/live-page.ts';
import { modelLabel } from '../../model/config.ts';
import { initializeWeights } from '../../model/initialize.ts';
import { KeyValueCache } from '../../model/key-value-cache.ts';
import { createModel, type Model } from '../../model/model.ts';
import { parameterCount } from '../../model/parameters.ts';
import { Sharding } from '../../model/sharded-parameters.ts';
import { Device } from '../../native/device.ts';
import { agreedOptions, configurationOf } from '../../options/configuration.ts';
import type { Configuration, SettledOptions } from '../../options/table.ts';
import { programVersion } from '../../package-root.ts';
import { agree, codeHash } from '../../ranks/agree.ts';
import type { Ranks } from '../../ranks/ranks.ts';
import { refuseOccupied } from '../../runs/existing.ts';
import { refuseBusyRun } from '../../runs/lock.ts';
import type { RunEvent } from '../../runs/schema.ts';
import { RunLog } from '../../runs/writer.ts';
import { openScalarFile, type ScalarFile } from '../../tensorboard/scalar-file.ts';
import { checkMemory } from '../plan/memory.ts';
import { describeDevice, memorySizes } from '../plan/plan.ts';
import { Trainer } from '../step/trainer.ts';
import { connectDevices } from './connect.ts';
import { openHellaswag } from './questions.ts';
import { changedShard, shardRecord } from './same-data.ts';
import { type Settled, sharesOf, takesSamples } from './settle.ts';

/** What a run of several ranks is told where it has only one. */
export const oneGpu = 'a process trains on one GPU: `train --gpus N` on the command line starts N of them';

/** What is said before step 0. */
export interface RunDescription {
  /** "d12", or sizes. */
  readonly model: string;
  readonly parameters: number;
  readonly tokensPerStep: number;
  readonly steps: number;
  readonly startStep: number;
  /** Device memory held. */
  readonly memoryBytes: number;
  readonly device: string;
  readonly out: string;
}

export interface Validation {
  readonly loader: Loader;
  /** Ranks that each batch is spread over. */
  readonly ranks: number;
  readonly batch: number;
  readonly sequence: number;
  /** Of which the mean is; where it is more than there are, they go round the set. */
  readonly batches: number;
  /** Whole batches that the set holds. */
  readonly different: number;
}

/** An open run. `close()` frees the device and closes files. */
export interface Run {
  /** The ranks this is a run of; undefined: it is alone. */
  readonly ranks: Ranks | undefined;
  readonly options: SettledOptions;
  readonly configuration: Configuration;
  /** The run folder; a new one if it is removed or moved during the run (saving.ts). */
  out: string;
  readonly steps: number;
  readonly startStep: number;
  /** The step at which this process ends: `steps`, or --stop-after. */
  readonly lastStep: number;
  readonly resumed: FoundCheckpoint | undefined;
  readonly model: Model;
  readonly trainer: Trainer;
  readonly writer: BackgroundWriter;
  readonly loader: Loader;
  readonly validation: Validation | undefined;
  readonly hellaswag: Hellaswag | undefined;
  /** For samples of text; undefined: none are taken. */
  readonly cache: KeyValueCache | undefined;
  readonly log: RunLog;
  /** For TensorBoard. */
  readonly scalars: ScalarFile | undefined;
  /** Name and version of this program. */
  readonly program: string;
  readonly runEvent: RunEvent;
  readonly description: RunDescription;
  close(): void;
}

/**
 * Of several ranks, each opens its own; rank 0's writes what the run leaves.
 * @throws UsageError, Gpt2Error, NativeError: whatever keeps the run from starting; nothing stays open then
 */
export async function openRun(settled: Settled, notice: (text: string) => void, ranks?: Ranks): Promise<Run> {
  const open: { close(): void }[] = [];
  const keep = <R extends { close(): void }>(resource: R): R => {
    open.push(resource);
    return resource;
  };
  const close = () => {
    const errors: unknown[] = [];
    for (const resource of open.splice(0).reverse()) {
      try {
        resource.close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  };
  try {
    const { options, deviceOptions, config, checkpoint, start, trainShards, valShards } = settled;
    if (options.ranks !== (ranks?.count ?? 1)) throw new UsageError(oneGpu);
    const isRoot = ranks === undefined || ranks.isRoot;
    const loader = keep(openTrainLoader(options, trainShards, config.vocabularySize, ranks?.rank));
    if (checkpoint) seekTo(loader, checkpoint, options.data);
    const steps = options.steps ?? Math.floor(loader.tokens / options.totalBatch);
    if (steps < 1) {
      throw new Gpt2Error(
        `${options.data} has ${loader.tokens} training tokens, less than one step of ${options.totalBatch}; give --steps or a smaller --total-batch`,
      );
    }
    if (options.warmup > steps) {
      throw new Gpt2Error(
        `--warmup ${options.warmup} is over the ${steps} steps of one epoch of ${options.data}; take a shorter --warmup or give --steps`,
      );
    }
    const validation =
      options.valEvery > 0 ? openValidation(options, valShards, config.vocabularySize, notice, ranks?.rank) : undefined;
    if (validation) keep(validation.loader);
    const hellaswag = openHellaswag(options, config, notice);

    const samples = takesSamples(options.sampleEvery, config);
    if (options.sampleEvery > 0 && !samples) {
      notice(`samples are off: no tokenizer has a vocabulary of ${config.vocabularySize} tokens`);
    }

    const ownOut = options.out ?? defaultOut(options.data, modelLabel(config));
    const out = (await ranks?.fromRoot(ownOut)) ?? ownOut;
    const asked = configurationOf(options, config, steps);
    if (isRoot && !checkpoint) refuseOccupied(out, options);
    if (isRoot) refuseBusyRun(out);

    const { serve: port, serveHost: host } = options;
    const page = port === undefined || !isRoot ? undefined : keep(await openLivePage({ port, host }, notice));
    const device = keep(Device.open(deviceOptions));
    const program = programVersion();
    if (ranks) {
      const { step, files } = checkpoint?.manifest ?? {};
      const { library, codePath } = device.description;
      await agree(ranks, {
        ...{ library, codePath, program, code: codeHash(library), checkpoint: { step, files } },
        start: start && !checkpoint ? checkpointHash(start.file) : undefined,
        configuration: agreedOptions(asked),
        training: loader.shards.map(shardRecord),
        validation: validation?.loader.shards.map(shardRecord),
        questions: hellaswag?.questions.length,
      });
    }
    const { codePath: before } = checkpoint?.manifest ?? {};
    const { codePath: now } = device.description;
    if (before !== undefined && before !== now) {
      notice(`computed by ${before} so far, by ${now} from here on: within rounding, not bit for bit`);
    }
    // What joins the ranks takes memory of its own, and is there first.
    const connection = ranks && (await connectDevices(ranks, device, options.overlap, notice));
    const { communicator, overlap = options.overlap } = connection ?? {};
    // What was chosen by a measured rate, so that a resumed run does the same.
    const configuration = { ...asked, overlap };
    const sizes = memorySizes(options, config);
    checkMemory(device, config, { ...sizes, parts: communicator?.parts });
    const { batch: B, sequence: T, recompute } = options;
    const sharding = communicator && sharesOf(options) > 1 ? new Sharding(communicator, config) : undefined;
    const model = createModel(device, config, { B, T, purpose: 'training', recompute }, sharding);
    const { optimizer } = sizes;
    const trainer = new Trainer(model, { ...options, optimizer, overlapsBackward: overlap === 'on' }, communicator);
    const writer = new BackgroundWriter(model, trainer.optimizerState.copies);
    // What other ranks give to a save has nowhere else to go; the save may be the run's last, hours from here.
    if (sharding && isRoot) writer.checkMemory();
    const cache = samples ? new KeyValueCache(model, { texts: 1, window: T }) : undefined;
    if (start) start.load(model);
    else initializeWeights(model, options.seed);
    if (checkpoint) loadOptimizer(checkpoint, model, trainer.optimizerState.copies);

    const startStep = checkpoint?.manifest.step ?? 0;
    const { tensorboard: folder } = options;
    const scalars =
      folder === undefined || !isRoot ? undefined : keep(openScalarFile(out, { folder, startStep, notice }));
    // Last, so that a run that cannot start leaves no folder, and takes nothing from the one that it is to replace. Rank
    // 0's makes it.
    const openLog = () => {
      if (!isRoot) return RunLog.ofRank(out, ranks.rank);
      return checkpoint
        ? RunLog.resume(out, { configuration, bytes: checkpoint.manifest.logBytes })
        : RunLog.create(out, { configuration, overwrite: options.overwrite }, (path) =>
            notice(`the previous log is kept as ${path}`),
          );
    };
    if (!isRoot) await ranks.barrier();
    const log = keep(openLog());
    if (isRoot) await ranks?.barrier();

    page?.follow({ run: out, machine: { gpu: deviceOptions.kind === 'cuda' ? deviceOptions.index : undefined } });
    const { codePath } = device.description;
    const parameters = parameterCount(config);
    return {
      ranks,
      options,
      configuration,
      out,
      steps,
      startStep,
      lastStep: Math.min(steps, Math.max(startStep, options.stopAfter ?? steps)),
      resumed: checkpoint,
      model,
      trainer,
      writer,
      loader,
      validation,
      hellaswag,
      cache,
      log,
      scalars,
      program,
      runEvent: {
        event: 'run',
        configuration,
        program,
        device: device.description.device,
        codePath,
        dtype: options.dtype,
        parameters,
        ...(checkpoint ? { resumedFrom: startStep } : {}),
        ...(ranks ? { hosts: [...ranks.hosts] } : {}),
        time: new Date().toISOString(),
      },
      description: {
        model: modelLabel(config),
        parameters,
        tokensPerStep: options.totalBatch,
        steps,
        startStep,
        memoryBytes: [...device.allocated.values()].reduce((sum, bytes) => sum + bytes, 0),
        device: `${ranks ? `${ranks.count} x ` : ''}${describeDevice(device)}`,
        out,
      },
      close,
    };
  } catch (error) {
    // The other ranks first: what they wait for this one in is given up then, and closing waits for nobody.
    const told = ranks ? await ranks.fail(error) : error;
    close();
    throw told;
  }
}

function openTrainLoader(options: SettledOptions, shards: string[], vocabularySize: number, rank = 0): Loader {
  const { batch, sequence, order, seed, ranks } = options;
  return openLoader({ shards, batch, sequence, order, seed, vocabularySize, rank, ranks });
}

/**
 * Puts the loader where the checkpoint's run was.
 * @throws Gpt2Error if the data is no longer what it was, unless it was named anew
 */
function seekTo(loader: Loader, { path, manifest }: FoundCheckpoint, data: string): void {
  const changed = changedShard(manifest.shards, loader.shards.map(shardRecord));
  if (changed && resolve(data) === resolve(String(manifest.configuration.data))) {
    throw new Gpt2Error(
      `the data in ${data} is not what ${path} was trained on: ${changed}; put back what it was, or name another folder with --data to go on with that`,
    );
  }
  loader.seekAsRoot(manifest.position);
}

function openValidation(
  options: SettledOptions,
  shards: string[],
  vocabularySize: number,
  notice: (text: string) => void,
  rank = 0,
): Validation | undefined {
  const { sequence, seed } = options;
  const plan = planValidation({ shards, batch: options.batch, sequence, ranks: options.ranks });
  if (plan.notice) notice(plan.notice);
  if (!plan.batch) return undefined;
  const { batch, ranks } = plan;
  const part = { rank: ranks > 1 ? rank : 0, ranks };
  const loader = openLoader({ shards, batch, sequence, order: 'file', seed, vocabularySize, ...part });
  return { loader, ranks, batch, sequence, batches: options.valSteps, different: plan.batches };
}

function defaultOut(data: string, model: string): string {
  const time = new Date().toISOString().slice(0, 19).replace('T', '-').replaceAll(':', '');
  return join('runs', `${basename(data)}-${model}-${time}`);
}
