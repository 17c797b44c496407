// The kernel lab on a device that runs kernels: the same suite on a GPU and on the CPU.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { attempt, Gpt2Error } from '../../src/base/errors.ts';
import { benchTraining } from '../../src/lab/bench/bench-training.ts';
import { readHistory } from '../../src/lab/history.ts';
import { newKernel } from '../../src/lab/new-kernel.ts';
import { labTool } from '../../src/lab/tools.ts';
import { readRun } from '../../src/runs/reader.ts';
import { describeCuda } from './backends.ts';
import { type Finished, quiet, tinyModel, Workplace, withCode, workplace } from './cli.ts';

type Change = (text: string) => string;

/** Changes the text of a file. */
export function edit(path: string, change: Change): void {
  const text = readFileSync(path, 'utf8');
  expect(change(text)).not.toBe(text);
  writeFileSync(path, change(text));
}

/** Makes a folder of naive kernels, and changes its card and its first source. @returns their paths */
export function newKernels(
  folder: string,
  { ops = ['gelu_forward'], ...changes }: { ops?: readonly string[]; card?: Change; source?: Change } = {},
): { card: string; source: string } {
  const [card, source] = newKernel(folder, ops) as [string, string];
  if (changes.card) edit(card, changes.card);
  if (changes.source) edit(source, changes.source);
  return { card, source };
}

/**
 * A test on a GPU of a command that runs the kernels of a new folder "norm" under a tool; skipped where the tool is missing.
 * @param command before its --device and --dtype
 * @param test gets a function that runs it and expects an exit code, and the path of the source
 */
export function testUnder(
  tool: Parameters<typeof labTool>[0],
  { name, op, command }: { name: string; op: string; command: readonly string[] },
  test: (run: (code: number) => Finished, source: string) => void,
): void {
  const isMissing = attempt(() => labTool(tool)) instanceof Gpt2Error;
  describeCuda(tool, () => {
    it.skipIf(isMissing)(name, () => {
      using place = new Workplace();
      const { source } = newKernels(place.path('norm'), { ops: [op] });
      test((code) => withCode(code, place.run([...command, '--device', 'cuda', '--dtype', 'fp32'])), source);
    });
  });
}

export function testsOfLab(device: 'cpu' | 'cuda'): void {
  const place = workplace();
  const run = (...args: readonly string[]) => place.here(['kernel', ...args, '--device', device]);
  /** On one thread, as test/support/environment.ts explains; on a GPU each command has a new process. */
  const gpt2 = async (...args: readonly string[]) =>
    place[device === 'cpu' ? 'here' : 'run']([...args, '--device', device, '--dtype', 'fp32'], { GPT2_THREADS: '1' });
  const gelu = ['gelu_forward', 'gelu_backward'];

  it('test: a naive kernel is right', async () => {
    newKernels(place.path('right'));
    const stdout = quiet(await run('test', 'right'));
    expect(stdout).toMatch(/^gelu_forward fp32 {2}count 4096 {2}right: 1 results, errors up to \d+% of the bound$/m);
    expect(stdout).toMatch(/^all right: gelu_forward fp32/m);
  });

  it('test: a wrong kernel is shown, with a map', async () => {
    newKernels(place.path('wrong'), { source: (text) => text.replace('i >= count', 'i >= count || i % 64 == 7') });
    const { stdout } = withCode(1, await run('test', 'wrong', '--dtype', 'fp32'));
    expect(stdout).toMatch(
      /^gelu_forward fp32 {2}count 4096 {2}out is wrong in 64 of 4096 elements \(64 of them NaN: .*; the first, \[7\], is NaN, expected /m,
    );
    expect(stdout).toMatch(/12 rows of 342, each mark 1 x 6 elements; # is wrong:\n {4}\.#\.+#/);
    expect(stdout).toMatch(/^wrong: gelu_forward fp32$/m);
  });

  it.each([
    [
      'stuck',
      'a kernel that hangs ends with its process',
      '  volatile const float *always = (const float *)in;\n  while (always[0] == always[0]) {}\n',
      /^the kernel gelu_forward of stuck did not end within [13] s: look for a loop/m,
    ],
    [
      'outside',
      'an access out of bounds names the kernel',
      // Far outside of what a GPU has mapped.
      '  out[1ll << 40] = 0;\n',
      device === 'cuda'
        ? /^outside: the kernel gelu_forward failed: .*; `(npx gpt2|npm run gpt2 --) kernel test outside --sanitize` or `--device cpu` finds where$/m
        : /^outside: the kernel gelu_forward failed: thread 0 of block 0 writes .* at \S+gelu\.cu:10\n {2}\S+gelu\.cu:10: out\[1ll << 40\] = 0;$/m,
    ],
  ])('test: %s: %s, and the next one is tested', async (folder, _, line, said) => {
    const source = (text: string) => text.replace(/(void gelu_forward\(.*\n)/, `$1${line}`);
    newKernels(place.path(folder), { ops: gelu, source });
    // Under the emulator's checks a launch of 100,003 threads takes a second.
    const seconds = device === 'cpu' ? '3' : '1';
    const { stdout } = withCode(1, await run('test', folder, '--dtype', 'fp32', '--time-limit', seconds));
    expect(stdout).toMatch(said);
    expect(stdout).toMatch(/^gelu_backward fp32 .* right: /m);
    expect(stdout).toMatch(/^wrong: gelu_forward fp32$/m);
  });

  it('bench: a kernel beside ours, in the sizes of a step, and its history', async () => {
    newKernels(place.path('timed'), { ops: ['gelu_forward', 'norm_backward.layernorm'] });
    const stdout = quiet(await run('bench', 'timed', '--dtype', 'fp32'));
    expect(stdout.startsWith('on a CPU these are times of the emulator: they say nothing about a GPU\n')).toBe(
      device === 'cpu',
    );
    expect(stdout).toMatch(/^gelu_forward fp32, count \d+, \d+ calls a step, on /m);
    expect(stdout).toMatch(/^ {2}ours +\S+ +\S+ +\d+ +- +\S+% +█/m);
    expect(stdout).toMatch(/^ {2}this kernel +\S+ +\S+ +\d+ +- +\S+% +█/m);
    // A call without an optional tensor moves fewer bytes.
    expect(stdout).toMatch(/^norm_backward\.layernorm fp32, N \d+, C \d+, without dresidual, 1 call a step, on /m);
    expect(stdout).toMatch(/^norm_backward\.layernorm fp32, N \d+, C \d+, \d+ calls a step, on /m);
    const [entry, ...others] = readHistory(place.path('timed'));
    expect(entry).toMatchObject({ op: 'gelu_forward', dtype: 'fp32', hash: expect.stringMatching(/^[0-9a-f]{16}$/) });
    expect(others.map(({ op }) => op)).toEqual(['norm_backward.layernorm', 'norm_backward.layernorm']);
  });

  it('train, eval and bench take the kernels; the log and --resume know them', async () => {
    const data = place.data({ vocabulary: 128, listed: true });
    newKernels(place.path('both'), { ops: ['gelu_forward', 'norm_forward.layernorm'] });
    const sizes = '--model custom --layers 1 --channels 32 --heads 2 --context 64 --batch 2 --seq 32 --order llmc';
    const options = `${sizes} --val-every 0 --sample-every 0 --steps 6 --lr 1e-3 --data ${data}`;
    const train = (out: string, ...args: readonly string[]) =>
      gpt2('train', ...options.split(' '), '--out', place.path(out), ...args);
    const losses = (out: string) => [...readRun(place.path(out)).series.train].map(([, loss]) => loss);
    quiet(await train('plain'));
    quiet(await train('own', '--kernel', 'both', '--stop-after', '3'));
    const { configuration } = readRun(place.path('own'));
    expect(configuration).toMatchObject({
      kernels: ['both'],
      cards: expect.stringMatching(/^gelu_forward [0-9a-f]{16}, norm_forward\.layernorm [0-9a-f]{16}$/),
    });

    const [source, resume] = [place.path('both/gelu.cu'), ['--out', place.path('own'), '--resume']];
    const text = readFileSync(source, 'utf8');
    writeFileSync(source, `${text}\n`);
    expect(withCode(1, await gpt2('train', ...resume)).stderr).toMatch(
      /^cannot resume .*own with other kernels: it was trained with .*; restore the files of both, or start another run\n$/,
    );
    writeFileSync(source, text);
    quiet(await gpt2('train', ...resume));
    const [plain, own] = [losses('plain'), losses('own')];
    expect(own).toHaveLength(6);
    for (const [step, loss] of own.entries()) expect(loss, `step ${step}`).toBeCloseTo(plain[step]!, 3);
    // Losses of so small a model are the same bits; those of a wrong kernel are not.
    writeFileSync(source, text.replace('0.5f * x', '0.7f * x'));
    quiet(await train('trained-wrong', '--kernel', 'both'));
    expect(losses('trained-wrong')[0]).not.toBeCloseTo(plain[0]!, 3);
    writeFileSync(source, text);

    const loss = async (...args: readonly string[]): Promise<number> =>
      JSON.parse((await gpt2('eval', '--model', place.path('own'), '--data', data, '--json', ...args)).stdout).loss;
    expect(await loss('--kernel', 'both')).toBeCloseTo(await loss(), 3);

    // On a GPU test/gpu/lab.test.ts has no time for it.
    if (device === 'cuda') return;
    const sized = { layers: 2, channels: 32, heads: 2, batch: 1, sequence: 32, device, threads: 1 };
    const kernels = [place.path('both')];
    const { report } = await benchTraining({ ...sized, kernels }, { steps: 1, warmup: 0, ops: true });
    const norms = report.ops.filter(({ name }) => /layernorm.forward/.test(name));
    expect(norms).toEqual([expect.objectContaining({ name: 'layernorm_forward (own)', calls: 5 })]);
  });

  it('a step that a kernel spoils is replayed with that kernel, and without', async () => {
    const data = place.data({ vocabulary: 128, name: 'some' });
    newKernels(place.path('spoils'), { source: (text) => text.replace('out[i] =', 'out[i] = i == 7 ? nanf("") :') });
    const options = ['--data', data, ...tinyModel.slice(0, -2), '--seq', '16', '--batch', '2'];
    const { stderr } = await gpt2('train', ...options, '--steps', '2', '--kernel', 'spoils', '--out', 'spoiled');
    expect(stderr).toMatch(
      /layer 0: gpt2_gelu_forward wrote NaN to out .* replay \S+step-00000000 --kernel spoils` computes it/,
    );
    const capture = 'spoiled/captures/step-00000000';
    expect(quiet(await gpt2('replay', capture, '--kernel', 'spoils'))).toMatch(
      /^equal to the capture, to the last bit$/m,
    );
    const without = withCode(1, await gpt2('replay', capture));
    expect(without.stdout).toMatch(/^every number is finite$/m);
    expect(without.stderr).toMatch(/: kernels of the library instead of gelu_forward [0-9a-f]{16}; loss /);
  });

  it('test: an error of the compiler is shown as it is', async () => {
    newKernels(place.path('typo'), { source: (text) => text.replace('tanhf', 'tanhh') });
    expect(withCode(1, await run('test', 'typo', '--dtype', 'fp32')).stdout).toMatch(/gelu\.cu:13:.*error.*tanhh/);
  });
}
