// Makes the tiles of report and live page: last loss, norm and learning rate, throughput, MFU (model FLOPs utilization), machine load.
import { dataSheetFlops, flopsPerToken, rateNote } from '../model/flops.ts';
import type { RunEvent } from '../runs/schema.ts';
import { formatCount, formatDuration, formatRate, formatValue } from './format-text.ts';
import type { LoggedRun } from './logged-run.ts';
import type { MachineReading } from './machine-load.ts';

export interface Tile {
  readonly label: string;
  readonly value: string;
  readonly note?: string;
}

/** Facts from a run's start event, with which a step's time becomes tokens per second, MFU and epochs. */
export const measuresOf = ({ configuration, device, dtype, hosts, data }: Extract<RunEvent, { event: 'run' }>) => ({
  ranks: hosts?.length ?? 1,
  /** Tokens of an epoch; undefined in older logs. */
  epoch: data?.epoch,
  flopsPerToken: flopsPerToken(configuration, configuration.sequence),
  /** Peak operations per second from the device's data sheet; undefined for an unknown device. */
  dataSheetFlops: dataSheetFlops(device, dtype),
  dtype,
});

/** Tokens, epochs and step time of a run so far, in words: "102,400 tokens (0.335 epochs)", "9m51s of steps". */
export function seenOf({ series: { tokens, seconds } }: LoggedRun, epoch: number | undefined): string[] {
  const [seen, time] = [tokens, seconds].map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const epochs = epoch === undefined ? '' : ` (${formatRate(seen! / epoch)} epochs)`;
  return [`${formatCount(seen!)} tokens${epochs}`, `${formatDuration(time!)} of steps`];
}

/** `steps`: the run's total steps. Only set while the run trains, to estimate the remaining time. */
type Speed = ReturnType<typeof measuresOf> & { readonly steps?: number };

export function tilesOf(run: LoggedRun, about: Speed | undefined, machine?: MachineReading): Tile[] {
  const { train, val } = run.last;
  const value = (value: unknown) => formatValue(Number(value));
  const tiles: Tile[] = [];
  if (train) tiles.push({ label: 'Training loss', value: value(train.loss), note: `step ${formatCount(train.step)}` });
  if (val) tiles.push({ label: 'Validation loss', value: value(val.loss), note: `step ${formatCount(val.step)}` });
  if (train) tiles.push({ label: 'Gradient norm', value: value(train.norm) });
  if (train) tiles.push({ label: 'Learning rate', value: value(train.lr) });
  if (about) tiles.push(...speedTiles(run, about, machine?.gpu?.power));
  if (machine) tiles.push(...machineTiles(machine));
  return tiles;
}

/** Tiles about speed. @param watts current power of this machine's GPU; each rank's GPU is assumed to take as much */
function speedTiles(run: LoggedRun, about: Speed, watts: number | undefined): Tile[] {
  const { ranks, steps, flopsPerToken, dataSheetFlops, dtype } = about;
  const { milliseconds, tokensPerSecond } = run;
  if (milliseconds === undefined || tokensPerSecond === undefined) return [];
  const flops = tokensPerSecond * flopsPerToken;
  const perJoule = watts && !run.isDone ? `, ${Math.round(tokensPerSecond / ranks / watts)} tokens/J` : '';
  const tiles: Tile[] = [
    {
      label: 'Throughput',
      value: `${formatCount(Math.round(tokensPerSecond))} tokens/s`,
      note: `${formatMilliseconds(milliseconds)} a step${perJoule}`,
    },
    dataSheetFlops === undefined
      ? { label: 'Rate', value: `${terascale(flops)} TFLOP/s`, note: "the device's peak is unknown" }
      : {
          label: 'MFU',
          value: `${((100 * flops) / dataSheetFlops).toFixed(1)}%`,
          note: `${terascale(flops)} of the data sheet's ${terascale(dataSheetFlops)} TFLOP/s${rateNote(dtype)}`,
        },
  ];
  if (!run.isDone && steps !== undefined) {
    const left = ((steps - run.step) * milliseconds) / 1000;
    tiles.push({ label: 'Left', value: formatDuration(left), note: 'plus validations' });
  }
  return tiles;
}

function machineTiles({ processMemory, gpu }: MachineReading): Tile[] {
  const tiles: Tile[] = [{ label: 'Process memory', value: gibibytes(processMemory) }];
  if (gpu?.memoryUsed !== undefined) {
    const note = gpu.memoryTotal === undefined ? undefined : `of ${gibibytes(gpu.memoryTotal)}`;
    tiles.push({ label: 'GPU memory', value: gibibytes(gpu.memoryUsed), note });
  }
  if (gpu?.temperature !== undefined) {
    const busy = gpu.load === undefined ? '' : `${Math.round(100 * gpu.load)}% busy`;
    const watts = gpu.power === undefined ? '' : `${Math.round(gpu.power)} W`;
    const note = [busy, watts].filter(Boolean).join(', ');
    tiles.push({ label: 'GPU temperature', value: `${gpu.temperature} °C`, note });
  }
  return tiles;
}

const gibibytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(bytes < 10 * 2 ** 30 ? 2 : 1)} GiB`;
const terascale = (flops: number): string => formatRate(flops / 1e12);
const formatMilliseconds = (value: number): string => `${value < 100 ? value.toPrecision(3) : Math.round(value)} ms`;
