// Opens everything that a run needs, cheap checks first: data, run folder, device, ranks, model, log. Options come from
// resolve-options.ts; the loop over steps is in session.ts.
import { basename, join } from 'node:path';
import { UsageError, words } from '../../base/errors.ts';
import { packageCommit, programVersion } from '../../base/package-root.ts';
import { modelLabel } from '../../model/config.ts';
import { totalOf } from '../../model/memory.ts';
import { parameterCount } from '../../model/parameters.ts';
import { Device, type DeviceDescription } from '../../native/device.ts';
import { cardHashes, loadFolders } from '../../ops/kernels/card-hash.ts';
import { useCards } from '../../ops/kernels/use-cards.ts';
import { agreedOptions, configurationOf } from '../../options/configuration.ts';
import type { Configuration } from '../../options/table.ts';
import { isRoot, type Ranks } from '../../ranks/ranks.ts';
import { openLivePage } from '../../report/live/live-page.ts';
import { openScalarFile } from '../../report/tensorboard/scalar-file.ts';
import { refuseOccupied } from '../../runs/existing.ts';
import { refuseBusyRun } from '../../runs/lock.ts';
import { timeName } from '../../runs/paths.ts';
import { RunLog } from '../../runs/writer.ts';
import { checkpointHash } from '../../weights/checkpoint/directory.ts';
import { describeDevice } from '../plan/plan.ts';
import type { Resolved } from '../plan/resolve-options.ts';
import { openData, type RunData } from './data.ts';
import { openModel } from './open-model.ts';
import type { Opening } from './opening.ts';
import type { Run } from './run.ts';
import { agree, checkSameKernels, codeHash, dataHash, shardRecord } from './same-inputs.ts';
import { learningRateAt, type Schedule } from './schedule.ts';

/** The message for a process that asks for several ranks but has no place among them. */
export const oneGpu = 'a process trains on one GPU: `train --gpus N` on the command line starts N of them';

/** Opens a run on each rank; rank 0 writes the run folder. @throws UsageError, Gpt2Error or NativeError if the run cannot start */
export async function openRun(opening: Opening): Promise<Run> {
  const { resolved, notice, ranks, resources, onPage } = opening;
  const { deviceOptions, config, tokenizer, checkpoint: resumed } = resolved;
  const { serve: port, serveHost: host, tensorboard } = resolved.options;
  if (resolved.options.ranks !== (ranks?.count ?? 1)) throw new UsageError(oneGpu);
  const { steps, warmup, ...data } = openData(opening);
  const options = Object.freeze({ ...resolved.options, warmup });
  announceRate({ ...options, steps }, opening);
  prepareSamples(resolved, notice);
  const out = await claimFolder(resolved, ranks);
  const page = port === undefined || !isRoot(ranks) ? undefined : await openLivePage({ port, host }, notice);
  if (page) resources.keep({ close: () => onPage(page) });
  const { device, cards, hashes } = await openDevice(opening, out);
  const program = programVersion();
  const asked = configurationOf(options, config, steps, hashes, Object.keys(resolved.parts));
  if (ranks) await agree(ranks, factsOf(resolved, data, { program, asked, device: device.description }));
  const { codePath } = device.description;
  const { step: startStep = 0, codePath: before = codePath } = resumed?.manifest ?? {};
  if (before !== codePath) {
    notice(`computed by ${before} so far, by ${codePath} from here on: within rounding, not bit for bit`);
  }
  const { configuration, ...trained } = await openModel(opening, { device, cards, asked });
  const scalars =
    tensorboard === undefined || !isRoot(ranks)
      ? undefined
      : resources.keep(openScalarFile(out, { folder: tensorboard, startStep, notice }));
  const log = await openLog(opening, out, configuration);
  page?.follow({ run: out, machine: { gpu: deviceOptions.kind === 'cuda' ? deviceOptions.index : undefined } });
  const lastStep = Math.min(steps, Math.max(startStep, options.stopAfter ?? steps));
  const run = {
    ...{ options, parts: resolved.parts, tokenizer, ranks, data, trained },
    span: { steps, startStep, lastStep },
    folder: { out, log, scalars, configuration, program, resumed },
  };
  return { ...run, runEvent: runEventOf(run), description: descriptionOf(run) };
}

/** Prints a notice if no tokenizer for text samples is known. Calls a known tokenizer once, because its package may be missing. */
function prepareSamples({ options, config, tokenizer }: Resolved, notice: (text: string) => void): void {
  if (options.sampleEvery === 0) return;
  if (tokenizer) tokenizer.decode?.([]);
  else notice(`samples are off: no tokenizer has a vocabulary of ${config.vocabularySize} tokens`);
}

/** Prints a notice if --lr 0 trains nothing, or if a new number of steps makes a resumed run's learning rate rise. */
function announceRate(now: Schedule, { resolved: { parts, checkpoint }, notice }: Opening): void {
  if (parts.schedule) return;
  if (now.learningRate === 0) notice(words`--lr 0: no step changes the weights`);
  const { step, configuration } = checkpoint?.manifest ?? { step: now.steps };
  const before: Schedule = { ...now, ...configuration };
  if (step >= now.steps || before.learningRate !== now.learningRate || before.schedule !== now.schedule) return;
  const rateOf = (schedule: Schedule) => Number(learningRateAt(schedule, Math.min(step, before.steps)).toPrecision(3));
  const [end, next] = [rateOf(before), rateOf(now)];
  if (next <= end) return;
  const rise = `the learning rate rises from ${end} to ${next} at step ${step}, as the schedule spans ${now.steps} steps`;
  notice(words`${rise}; to keep ${end}, give --schedule constant --lr ${end}`);
}

/** Chooses the run folder, equal on every rank. @throws Gpt2Error if another run or process uses the folder */
async function claimFolder({ options, config, checkpoint }: Resolved, ranks: Ranks | undefined): Promise<string> {
  const chosen = options.out ?? join('runs', `${basename(options.data)}-${modelLabel(config)}-${timeName()}`);
  const out = (await ranks?.fromRoot(chosen)) ?? chosen;
  if (!isRoot(ranks)) return out;
  if (!checkpoint) refuseOccupied(out, options);
  refuseBusyRun(out);
  return out;
}

async function openDevice({ resolved, notice, resources }: Opening, out: string) {
  const { options, deviceOptions, checkpoint } = resolved;
  const cards = await loadFolders(options.kernels);
  const hashes = cardHashes(cards);
  if (checkpoint) checkSameKernels(out, checkpoint.manifest.configuration.cards, hashes, options.kernels);
  const device = resources.keep(Device.open(deviceOptions));
  await useCards(device, cards);
  if (hashes) notice(`kernels of ${options.kernels!.join(', ')} compute ${hashes}`);
  return { device, cards, hashes };
}

type Opened = Omit<Run, 'runEvent' | 'description'>;

function runEventOf({ options, parts, ranks, span, data, trained, folder }: Opened): Run['runEvent'] {
  const { config, device } = trained.model;
  const { configuration, program, resumed } = folder;
  const commit = packageCommit();
  return {
    event: 'run',
    ...{ configuration, program, device: device.description.device, codePath: device.description.codePath },
    ...{ dtype: options.dtype, parameters: parameterCount(config) },
    data: {
      ...{ train: dataHash(data.loader.shards), val: data.validation && dataHash(data.validation.shards) },
      ...(parts.batches ? {} : { epoch: data.loader.tokens }),
    },
    ...(commit === undefined ? {} : { commit }),
    ...(resumed ? { resumedFrom: span.startStep } : {}),
    ...(ranks ? { hosts: [...ranks.hosts] } : {}),
    time: new Date().toISOString(),
  };
}

function rateText({ options, parts }: Opened): string {
  if (parts.schedule) return 'lr of the program';
  const { learningRate, warmup, schedule, finalLearningRateFraction: final } = options;
  const start = warmup > 0 ? `, warmup ${warmup}` : '';
  const rate = learningRate < 1000 ? learningRate : learningRate.toExponential();
  return `lr ${rate}${start}, ${final === 1 ? 'constant' : `${schedule} to ${final}`}`;
}

function descriptionOf(run: Opened): Run['description'] {
  const { options, ranks, span, data, trained, folder } = run;
  const { config, device } = trained.model;
  const { totalBatch, accumulation, logEvery, overfitBatch } = options;
  return {
    ...{ model: modelLabel(config), parameters: parameterCount(config), tokensPerStep: totalBatch, accumulation },
    ...span,
    rate: rateText(run),
    epochs: overfitBatch ? 0 : (span.steps * totalBatch) / data.loader.tokens,
    logEvery,
    memoryBytes: totalOf(device.allocated),
    device: `${ranks ? `${ranks.count} x ` : ''}${describeDevice(device)}`,
    out: folder.out,
  };
}

/** Facts on which all ranks must agree before step 0. */
function factsOf(
  { checkpoint, start }: Resolved,
  { loader, validation, hellaswag }: RunData,
  { program, asked, device }: { program: string; asked: Configuration; device: DeviceDescription },
) {
  const { step, files } = checkpoint?.manifest ?? {};
  const { library, codePath } = device;
  return {
    ...{ library, codePath, program, code: codeHash(library), checkpoint: { step, files } },
    start: start && !checkpoint ? checkpointHash(start.file) : undefined,
    configuration: agreedOptions(asked),
    training: loader.shards.map(shardRecord),
    validation: validation?.shards.map(shardRecord),
    questions: hellaswag?.questions.length,
  };
}

/**
 * Opens the log last, so that a run that fails to start leaves no folder, and does not damage the run that it would replace. Rank
 * 0 creates the folder before other ranks open their logs.
 */
async function openLog(
  { resolved, ranks, notice, resources }: Opening,
  out: string,
  configuration: Configuration,
): Promise<RunLog> {
  const { checkpoint, options } = resolved;
  if (ranks && !ranks.isRoot) {
    await ranks.barrier();
    return resources.keep(RunLog.ofRank(out, ranks.rank));
  }
  const log = checkpoint
    ? RunLog.resume(out, { configuration, bytes: checkpoint.manifest.logBytes })
    : RunLog.create(out, { configuration, overwrite: options.overwrite }, (path) =>
        notice(`the previous log is kept as ${path}`),
      );
  resources.keep(log);
  await ranks?.barrier();
  return log;
}
