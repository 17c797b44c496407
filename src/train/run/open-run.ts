// Opens everything that a run needs, cheap checks first: data, run folder, device, ranks, model, log. Options come from
// settle.ts; the loop over steps is in session.ts.
import { basename, join } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import { packageCommit, programVersion } from '../../base/package-root.ts';
import { modelLabel } from '../../model/config.ts';
import { totalOf } from '../../model/memory.ts';
import { parameterCount } from '../../model/parameters.ts';
import { Device, type DeviceDescription } from '../../native/device.ts';
import { cardHashes, loadFolders } from '../../ops/kernels/card-hash.ts';
import { useCards } from '../../ops/kernels/use-cards.ts';
import { agreedOptions, configurationOf } from '../../options/configuration.ts';
import type { Configuration } from '../../options/table.ts';
import { agree, codeHash } from '../../ranks/agree.ts';
import { openLivePage } from '../../report/live/live-page.ts';
import { openScalarFile } from '../../report/tensorboard/scalar-file.ts';
import { refuseOccupied } from '../../runs/existing.ts';
import { refuseBusyRun } from '../../runs/lock.ts';
import { timeName } from '../../runs/paths.ts';
import { RunLog } from '../../runs/writer.ts';
import { checkpointHash } from '../../weights/checkpoint/directory.ts';
import { describeDevice } from '../plan/plan.ts';
import { type Settled, takesSamples } from '../plan/settle.ts';
import { openData, type RunData } from './data.ts';
import { openModel } from './open-model.ts';
import { type Opening, Resources } from './opening.ts';
import type { Run } from './run.ts';
import { dataHash, shardRecord } from './same-data.ts';
import { checkSameKernels } from './same-kernels.ts';

/** Message for a process that was given several ranks but no place among them. */
export const oneGpu = 'a process trains on one GPU: `train --gpus N` on the command line starts N of them';

/**
 * Opens a run; each rank opens its own, and rank 0 writes the run folder.
 * @throws UsageError, Gpt2Error, NativeError: whatever keeps the run from starting; nothing stays open
 */
export async function openRun({ ranks, ...given }: Omit<Opening, 'resources'>): Promise<Run> {
  const resources = new Resources();
  try {
    return await open({ ...given, ranks, resources });
  } catch (error) {
    // The other ranks first: closing waits for collectives that they have to give up.
    const reported = ranks ? await ranks.fail(error) : error;
    resources.close();
    throw reported;
  }
}

async function open(opening: Opening): Promise<Run> {
  const { settled, notice, ranks, resources, onPage } = opening;
  const { options, deviceOptions, config, tokenizer, checkpoint } = settled;
  if (options.ranks !== (ranks?.count ?? 1)) throw new UsageError(oneGpu);
  const isRoot = ranks === undefined || ranks.isRoot;
  const data = openData(opening);
  const { steps } = data;
  if (options.sampleEvery > 0 && !takesSamples(options.sampleEvery, tokenizer)) {
    notice(`samples are off: no tokenizer has a vocabulary of ${config.vocabularySize} tokens`);
  }
  // If this takes a package that is not installed, training should not begin.
  if (takesSamples(options.sampleEvery, tokenizer)) tokenizer?.decode?.([]);
  const ownOut = options.out ?? defaultOut(options.data, modelLabel(config));
  const out = (await ranks?.fromRoot(ownOut)) ?? ownOut;
  if (isRoot && !checkpoint) refuseOccupied(out, options);
  if (isRoot) refuseBusyRun(out);

  const { serve: port, serveHost: host, tensorboard: folder } = options;
  const page = port === undefined || !isRoot ? undefined : await openLivePage({ port, host }, notice);
  if (page) resources.keep({ close: () => onPage(page) });
  const cards = await loadFolders(options.kernels);
  const hashes = cardHashes(cards);
  if (checkpoint) checkSameKernels(out, checkpoint.manifest.configuration.cards, hashes, options.kernels);
  const device = resources.keep(Device.open(deviceOptions));
  await useCards(device, cards);
  if (hashes) notice(`kernels of ${options.kernels!.join(', ')} compute ${hashes}`);
  const { codePath } = device.description;
  const program = programVersion();
  const asked = configurationOf(options, config, steps, hashes);
  if (ranks) await agree(ranks, factsOf(settled, data, { program, asked, device: device.description }));
  const { step: startStep = 0, codePath: before = codePath } = checkpoint?.manifest ?? {};
  if (before !== codePath) {
    notice(`computed by ${before} so far, by ${codePath} from here on: within rounding, not bit for bit`);
  }
  const opened = await openModel(opening, { device, cards, asked });
  const { configuration } = opened;
  const scalars =
    folder === undefined || !isRoot ? undefined : resources.keep(openScalarFile(out, { folder, startStep, notice }));
  const log = await openLog(opening, out, configuration);
  page?.follow({ run: out, machine: { gpu: deviceOptions.kind === 'cuda' ? deviceOptions.index : undefined } });

  const parameters = parameterCount(config);
  const commit = packageCommit();
  const lastStep = Math.min(steps, Math.max(startStep, options.stopAfter ?? steps));
  return {
    ...{
      ...data,
      ...opened,
      ranks,
      isRoot,
      options,
      tokenizer,
      out,
      startStep,
      resumed: checkpoint,
      log,
      scalars,
      program,
    },
    lastStep,
    runEvent: {
      event: 'run',
      ...{ configuration, program, device: device.description.device, codePath, dtype: options.dtype, parameters },
      data: { train: dataHash(data.loader.shards), val: data.validation && dataHash(data.validation.shards) },
      ...(commit === undefined ? {} : { commit }),
      ...(checkpoint ? { resumedFrom: startStep } : {}),
      ...(ranks ? { hosts: [...ranks.hosts] } : {}),
      time: new Date().toISOString(),
    },
    description: {
      ...{ model: modelLabel(config), parameters, tokensPerStep: options.totalBatch, steps, startStep, out },
      ...{
        epochs: (steps * options.totalBatch) / data.loader.tokens,
        accumulation: options.accumulation,
        lastStep,
        logEvery: options.logEvery,
      },
      memoryBytes: totalOf(device.allocated),
      device: `${ranks ? `${ranks.count} x ` : ''}${describeDevice(device)}`,
    },
    close: () => resources.close(),
  };
}

/** Facts on which all ranks must agree before step 0. */
function factsOf(
  { checkpoint, start }: Settled,
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
 * Opens the log last, so that a run that cannot start leaves no folder and takes nothing from the run it would replace. Rank 0
 * makes the folder before the others open theirs.
 */
async function openLog(
  { settled, ranks, notice, resources }: Opening,
  out: string,
  configuration: Configuration,
): Promise<RunLog> {
  const { checkpoint, options } = settled;
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

function defaultOut(data: string, model: string): string {
  return join('runs', `${basename(data)}-${model}-${timeName()}`);
}
