// @ts-check
// A run's last figures: what is on each tile. Knows no DOM; figures.js shows them.
import { duration, formatStep, formatValue } from './numbers.js';

/** @typedef {import('./logged-run.js').LoggedRun} LoggedRun */
/** @typedef {import('../run-figures.ts').Measures} Measures */
/** @typedef {import('../../live/machine.ts').MachineReading} MachineReading */
/** @typedef {{ label: string, value: string, note?: string }} Tile */

/**
 * @param {LoggedRun} run
 * @param {Measures & { steps?: number } | undefined} about `steps` of a run that goes on, whose end is worth an estimate
 * @param {MachineReading} [machine]
 * @returns {Tile[]}
 */
export function tilesOf(run, about, machine) {
  const { train, val } = run.last;
  /** @param {unknown} value */
  const value = (value) => formatValue(Number(value));
  const tiles = [];
  if (train) tiles.push({ label: 'Training loss', value: value(train.loss), note: `step ${formatStep(train.step)}` });
  if (val) tiles.push({ label: 'Validation loss', value: value(val.loss), note: `step ${formatStep(val.step)}` });
  if (train)
    tiles.push(
      { label: 'Gradient norm', value: value(train.norm) },
      { label: 'Learning rate', value: value(train.lr) },
    );
  if (about) tiles.push(...speedTiles(run, about));
  if (machine) tiles.push(...machineTiles(machine));
  return tiles;
}

/** @param {LoggedRun} run @param {Measures & { steps?: number }} about @returns {Tile[]} */
function speedTiles(run, { tokensPerStep, steps, flopsPerToken, dataSheetFlops }) {
  const { milliseconds } = run;
  if (milliseconds === undefined) return [];
  const tokensPerSecond = (tokensPerStep * 1000) / milliseconds;
  const flops = tokensPerSecond * flopsPerToken;
  return [
    {
      label: 'Throughput',
      value: `${formatStep(Math.round(tokensPerSecond))} tokens/s`,
      note: `${formatMilliseconds(milliseconds)} a step`,
    },
    dataSheetFlops === undefined
      ? { label: 'Rate', value: `${terascale(flops)} TFLOP/s`, note: "the device's peak is unknown" }
      : {
          label: 'MFU',
          value: `${((100 * flops) / dataSheetFlops).toFixed(1)}%`,
          note: `${terascale(flops)} of the data sheet's ${terascale(dataSheetFlops)} TFLOP/s`,
        },
    ...(run.isDone || steps === undefined
      ? []
      : [
          {
            label: 'Left',
            value: duration(((steps - run.step) * milliseconds) / 1000),
            note: 'and validations',
          },
        ]),
  ];
}

/** @param {MachineReading} machine @returns {Tile[]} */
function machineTiles({ processMemory, gpu }) {
  /** @type {Tile[]} */
  const tiles = [{ label: 'Process memory', value: gibibytes(processMemory) }];
  if (gpu?.memoryUsed !== undefined) {
    const note = gpu.memoryTotal === undefined ? undefined : `of ${gibibytes(gpu.memoryTotal)}`;
    tiles.push({ label: 'GPU memory', value: gibibytes(gpu.memoryUsed), note });
  }
  if (gpu?.temperature !== undefined) {
    const note = [
      gpu.load === undefined ? '' : `${Math.round(100 * gpu.load)}% busy`,
      gpu.power === undefined ? '' : `${Math.round(gpu.power)} W`,
    ];
    tiles.push({ label: 'GPU temperature', value: `${gpu.temperature} °C`, note: note.filter(Boolean).join(', ') });
  }
  return tiles;
}

/** @param {number} bytes */
const gibibytes = (bytes) => `${(bytes / 2 ** 30).toFixed(bytes < 10 * 2 ** 30 ? 2 : 1)} GiB`;
/** @param {number} flops */
const terascale = (flops) => (flops / 1e12).toPrecision(3);
/** @param {number} value */
const formatMilliseconds = (value) => `${value < 100 ? value.toPrecision(3) : Math.round(value)} ms`;
