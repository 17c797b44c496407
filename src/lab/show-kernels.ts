// `kernel show`: a compiler's results for the kernels of a card or file: registers, memory and occupancy, or PTX and SASS listings.
import { Gpt2Error } from '../base/errors.ts';
import { type Dtype, elementTypesOf } from '../native/device.ts';
import type { KernelSource } from '../ops/kernels/compile.ts';
import { type LoadedCard, loadCards } from '../ops/kernels/kernel-card.ts';
import { type Dimensions, instanceOf, withoutSpaces } from '../ops/kernels/kernels.ts';
import { cardSource, elementMacros, launchesOf } from '../ops/kernels/use-cards.ts';
import { formatTable } from '../report/format-text.ts';
import { type PerKernel, ptxOf, type Resources, resourcesOf, sassOf } from './compiled-kernels.ts';
import { type Limiter, limitsOf, type Occupancy, occupancyOf } from './occupancy.ts';
import { casesNamed } from './ops.ts';
import { callsWithoutGpu, gpuStep, sizesOf } from './step-calls.ts';

export interface ShowOptions {
  /** A folder with a card, or a .cu file. */
  readonly path: string;
  /** Compute capability to compile for: "9.0". */
  readonly target: string;
  readonly view: 'figures' | 'ptx' | 'sass';
  /** Default with figures: every dtype of the card. Default with a listing: the card's first dtype. Default for a .cu file: fp32. */
  readonly dtype?: Dtype;
  /** Name of the only kernel to show. Default: every kernel that the card launches, or all of a .cu file. */
  readonly kernel?: string;
  /** How to compile and launch a .cu file that has no card. */
  readonly file?: Omit<KernelSource, 'file' | 'source' | 'checks'> & {
    readonly block?: number;
    readonly shared?: number;
  };
}

interface Launch {
  readonly grid?: Dimensions;
  readonly block: Dimensions;
  readonly shared?: number;
  /** The op's sizes at this launch: "N 8192, C 768". */
  readonly sizes?: string;
}

/** A source to compile: a card's, in one dtype, or a .cu file. */
interface Unit {
  /** The heading: "norm_forward.layernorm bf16". */
  readonly title: string;
  readonly source: KernelSource;
  /** A kernel's launches in a training step or, for a .cu file, the launch that the user's flags describe; undefined if unknown. */
  launches(kernel: string): readonly Launch[] | undefined;
  /** Kernels that are shown unless the user names one; undefined: all in the source. */
  readonly kernels: readonly string[] | undefined;
}

/** Compiles the kernels, and prints figures or listings. @throws Gpt2Error for an unknown kernel, dtype or GPU; CompileError */
export async function showKernels(options: ShowOptions, onLine: (line: string) => void): Promise<void> {
  const units = await unitsOf(options);
  if (options.view === 'figures') showFigures(units, options, onLine);
  else showListings(units, options, onLine);
}

/** A kernel's name with macros replaced and without spaces: names from cards, compilers and users are compared in this form. */
const keyOf = (kernel: string, { defines = {} }: KernelSource): string => withoutSpaces(instanceOf(kernel, defines));

/** Compiles the sources, and picks the kernels to show. @throws Gpt2Error for a kernel that no source has */
function chosen<Value>(
  units: readonly Unit[],
  { kernel, path }: ShowOptions,
  madeOf: (source: KernelSource) => PerKernel<Value>,
) {
  // Several cards may share a .cu file. Show a named kernel for the cards that launch it or, if none does, for all cards.
  const launching = kernel === undefined ? [] : units.filter((unit) => unit.launches(kernel));
  const known = new Set<string>();
  const missing = new Set(kernel === undefined ? [] : [kernel]);
  const all = (launching.length > 0 ? launching : units).map((unit) => {
    const made = [...madeOf(unit.source)];
    for (const [name] of made) known.add(name);
    const names = kernel === undefined ? (unit.kernels ?? made.map(([name]) => name)) : [kernel];
    const kernels = names.flatMap((name) => {
      const found = made.filter((each) => withoutSpaces(each[0]) === keyOf(name, unit.source));
      if (found.length > 0) missing.delete(name);
      else if (kernel === undefined) missing.add(name);
      return found;
    });
    return { unit, kernels };
  });
  for (const name of missing) {
    throw new Gpt2Error(`there is no kernel ${name} in ${path}: it has ${[...known].join(', ') || 'none'}`);
  }
  return all.filter(({ kernels }) => kernels.length > 0);
}

function showListings(units: readonly Unit[], options: ShowOptions, onLine: (line: string) => void): void {
  const { target, view } = options;
  const listings = view === 'ptx' ? ptxOf : sassOf;
  for (const { unit, kernels } of chosen(units, options, (source) => listings(source, target))) {
    for (const [name, text] of kernels) {
      onLine(`// ${name} (${unit.title}), compute capability ${target}`);
      onLine(`${text}\n`);
    }
  }
}

/** Notes below the table that explain its column `limited by`. */
const meanings: Readonly<Record<Limiter | 'full', string>> = {
  registers:
    'registers: an SM has 65536; with fewer a thread (smaller tiles, __launch_bounds__) it holds more blocks, until they spill',
  'shared memory': 'shared memory: with less of it a block, static and dynamic together, an SM holds more blocks',
  threads: 'threads: an SM has too few free warps for another block of this size; another size may fill it',
  blocks: 'blocks: an SM holds no more of them, however small they are; larger blocks give it more warps',
  full: 'full: an SM holds all the warps that it can',
};
const spills =
  'spill: bytes that the code of a thread stores to memory and loads from there because it lacks registers; smaller tiles, or a higher limit of registers, avoid them';
const failing = '0 blocks: the launch fails, because a single block needs more than there is';

/** Data-center GPUs by compute capability, with their number of SMs. */
const usual: Readonly<Record<string, { readonly name: string; readonly sms: number }>> = {
  '8.0': { name: 'an A100', sms: 108 },
  '9.0': { name: 'an H100', sms: 132 },
};

/** A note if a launch has fewer blocks than the GPU can hold at once, so that SMs are partly idle. */
function idleNote(target: string, kernel: string, { grid }: Launch, { blocks: fits }: Occupancy): string | undefined {
  const gpu = usual[target];
  if (grid === undefined || gpu === undefined) return undefined;
  const blocks = product(grid);
  const { name, sms } = gpu;
  const count = `${kernel} has ${blocks} ${blocks === 1 ? 'block' : 'blocks'}`;
  if (blocks < sms) return `${count}: ${blocks} of the ${sms} SMs of ${name} ${blocks === 1 ? 'has' : 'have'} work`;
  if (blocks >= sms * fits) return undefined;
  return `${count}: an SM of ${name} gets ${(blocks / sms).toFixed(1)} of the ${fits} that it holds, as it has ${sms} SMs`;
}

const product = (sizes: Dimensions): number => ([sizes].flat() as number[]).reduce((all, size) => all * size, 1);

const head = ['kernel', 'registers', 'static', 'dynamic', 'local', 'spill stores', 'spill loads', 'grid', 'block'];

function showFigures(units: readonly Unit[], options: ShowOptions, onLine: (line: string) => void): void {
  const { target } = options;
  // Refuse an unknown GPU before the sources are compiled.
  limitsOf(target);
  const notes = new Set<string>();
  const lines: string[] = [];
  for (const { unit, kernels } of chosen(units, options, (source) => resourcesOf(source, target))) {
    const rows = kernels.flatMap(([name, made]) =>
      (unit.launches(name) ?? [undefined]).map((launch) => {
        const needs = launch && { threads: product(launch.block), shared: made.shared + (launch.shared ?? 0) };
        const occupancy = needs && occupancyOf(target, { registers: made.registers, ...needs });
        for (const each of occupancy ? limitersOf(occupancy) : []) notes.add(meanings[each]);
        if (occupancy?.blocks === 0) notes.add(failing);
        const idle = occupancy && idleNote(target, name, launch, occupancy);
        if (idle !== undefined) notes.add(idle);
        if (made.spillStores + made.spillLoads > 0) notes.add(spills);
        return cells(name, made, launch, occupancy);
      }),
    );
    lines.push(unit.title);
    const isSized = rows.some((row) => row.at(-1) !== '');
    const table = formatTable([[...head, 'blocks/SM', 'warps/SM', 'limited by', isSized ? 'sizes' : ''], ...rows]);
    lines.push(...table.split('\n').map((line) => `  ${line}`), '');
  }
  const step = units.some(({ kernels }) => kernels) ? `, launches of a training step of ${gpuStep}` : '';
  onLine(`for compute capability ${target}${step}\n`);
  for (const line of lines) onLine(line);
  onLine('registers and local bytes are of a thread, static and dynamic bytes of shared memory of a block');
  for (const note of notes) onLine(note);
}

const limitersOf = ({ limiters }: Occupancy): readonly (Limiter | 'full')[] =>
  limiters.length > 0 ? limiters : ['full'];

const cells = (
  name: string,
  { registers, shared, local, spillStores, spillLoads }: Resources,
  launch: Launch | undefined,
  occupancy: Occupancy | undefined,
): string[] => [
  ...[name, String(registers), String(shared), launch ? String(launch.shared ?? 0) : '-'],
  ...[local, spillStores, spillLoads].map(String),
  ...[launch?.grid, launch?.block].map((size) => (size === undefined ? '-' : [size].flat().join('x'))),
  ...(occupancy
    ? [String(occupancy.blocks), `${occupancy.warps} of ${occupancy.most}`, limitersOf(occupancy).join(', ')]
    : ['-', '-', '-']),
  launch?.sizes ?? '',
];

async function unitsOf(options: ShowOptions): Promise<readonly Unit[]> {
  const { path, dtype, view, file = {} } = options;
  if (path.endsWith('.cu')) {
    const { block = 256, shared, ...others } = file;
    const defines = { ...elementMacros(elementTypesOf({ kind: 'cuda', dtype })), ...others.defines };
    const source = { ...others, file: path, defines };
    const launches = () => [{ block, shared }];
    return [{ title: `${path} ${dtype ?? 'fp32'}`, source, launches, kernels: undefined }];
  }
  const units: Unit[] = [];
  for (const card of await loadCards(path)) {
    const taken = (card.dtypes ?? ['fp32']).filter((each) => dtype === undefined || each === dtype);
    for (const each of view === 'figures' ? taken : taken.slice(0, 1)) units.push(await unitOf(card, each));
  }
  if (units.length > 0) return units;
  throw new Gpt2Error(`no kernel of ${path} takes ${dtype}: add the dtype to the card, or name another with --dtype`);
}

async function unitOf(card: LoadedCard, dtype: Dtype): Promise<Unit> {
  const { variant } = casesNamed(card.op);
  const { device, calls } = await callsWithoutGpu(dtype);
  const source = cardSource(card, device);
  const launches = new Map<string, Launch[]>();
  const seen = new Set<string>();
  for (const call of calls.get(variant) ?? []) {
    const scratch = (bytes: number) => (bytes > 0 ? device.allocate(bytes, 'scratch') : null);
    for (const { kernel, args: _, ...shape } of launchesOf(card, call.given, call.args, scratch)) {
      const launch = { ...shape, sizes: sizesOf(call) };
      const key = JSON.stringify([kernel, launch]);
      if (seen.has(key)) continue;
      seen.add(key);
      const name = keyOf(kernel, source);
      launches.set(name, [...(launches.get(name) ?? []), launch]);
    }
  }
  return {
    title: `${card.op} ${dtype}`,
    source,
    launches: (kernel) => launches.get(keyOf(kernel, source)),
    // If the step does not use the op, no launch is known: undefined shows all kernels of the source.
    kernels: launches.size > 0 ? [...launches.keys()] : undefined,
  };
}
