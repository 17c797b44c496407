// The commands of the kernel lab on the CPU, and what they refuse.
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { packageRoot } from '../../src/base/package-root.ts';
import { findCards } from '../../src/lab/find-cards.ts';
import { KernelProcess } from '../../src/lab/kernel-process.ts';
import { readOptionsFile } from '../../src/options/read-options.ts';
import type { KernelRound } from '../../src/report/kernel-round.ts';
import { train } from '../../src/train/train.ts';
import { StreamViewer } from '../live/streams.ts';
import { tinyModel, withCode, workplace } from '../support/cli.ts';
import { edit, newKernels, testsOfLab } from '../support/lab.ts';
import { until } from '../support/until.ts';

const place = workplace();
newKernels(place.path('gelu'));
/** Tests the kernels of a folder. Without --dtype fp32 a compiler for GPUs, where there is one, also compiles them in bf16. */
const test = (folder: string, ...args: readonly string[]) =>
  place.here(['kernel', 'test', folder, '--device', 'cpu', ...args]);

describe('on the CPU', () => testsOfLab('cpu'));

it('a card that ends its process costs that process alone', async () => {
  mkdirSync(place.path('crash'));
  writeFileSync(place.path('crash/card.mjs'), "process.kill(process.pid, 'SIGSEGV'); export default [];");
  expect(withCode(1, await test('crash')).stderr).toMatch(/^crash: the process for kernels was ended by SIGSEGV\n$/);
});

const hangs = { importing: 'for (;;) {}', waiting: 'await new Promise(() => {});' };
const channel = "import { writeSync } from 'node:fs';\n";
it.each([
  ['a card that loops', hangs.importing, 'importing the card of FOLDER did not end within 1 s: look for'],
  ['a card that waits', hangs.waiting, 'importing the card of FOLDER did not end within 1 s: look for'],
  ['a compiler that waits', '', 'compiling the kernels of FOLDER did not end within 1 s: look for'],
  ...['garbage\\n', '{}\\n', 'null\\n', '{"say":"list"}\\n'].map((text) => [
    `${text} on its channel`,
    `${channel}writeSync(3, '${text}');`,
    'FOLDER: the process for kernels was ended, because something else wrote ',
  ]),
  ['no line', `${channel}for (;;) writeSync(3, 'x'.repeat(1 << 16));`, 'was ended, because something else wrote "xxx'],
])('%s ends the process for kernels, and the next request starts another', async (name, code, message) => {
  const folder = place.path(name.replaceAll(/\W/g, '-'));
  const { card } = newKernels(folder);
  const [device, job] = [{ kind: 'cpu', index: 0 } as const, { op: 'gelu_forward', dtype: 'fp32' } as const];
  const waits = place.script('waits', 'case "$*" in --version) echo waits;; *) sleep 30;; esac');
  if (code === '') vi.stubEnv('CXX', waits);
  const limits = { 'importing the card': Object.values(hangs).includes(code) ? 1 : 600, 'compiling the kernels': 1 };
  using child = new KernelProcess({ seconds: 9, limits });
  edit(card, (text) => `${code}\n${text}`);
  const asked = child.ask({ ask: 'test', folder, device, ...job }, () => {});
  await expect(asked).rejects.toThrow(message.replace('FOLDER', folder));
  limits['importing the card'] = 600;
  writeFileSync(card, "import { defineKernel } from 'gpt2.ts';\nexport default defineKernel({ op: 'gelu_forward' });");
  await expect(child.ask({ ask: 'list', folder, device }, () => {})).rejects.toThrow('has no function launches');
});

it.each([
  ['kernel', 'new', '/proc/none/gelu', '--op', 'gelu_forward'],
  ['course', 'start', '/proc/none/course'],
  ['kernel', 'build', 'gelu/gelu.cu', '--cpu'],
])('%s %s ends where the file system takes no folders', (...args) => {
  const { stderr } = withCode(1, place.run(args, { XDG_CACHE_HOME: '/proc/none' }, '', 120_000));
  expect(stderr).toMatch(/^cannot .*\/proc\/none.*ENOENT.*; name another .*\n$/);
});

it.skipIf(process.platform !== 'linux')(
  'a kernel that hangs ends with a command that is killed (needs Linux)',
  async () => {
    const loop = '  for (volatile int i = 0; i == 0;) {}\n';
    newKernels(place.path('endless'), { source: (text) => text.replace(/(void gelu_forward\(.*\n)/, `$1${loop}`) });
    const command = place.start('kernel test endless --device cpu --dtype fp32');
    const processor = (pid: string) => {
      const [, utime, stime] = /^\d+ \(.*\)(?: \S+){11} (\d+) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!;
      return (Number(utime) + Number(stime)) / 100;
    };
    const pid = await until(() => {
      const [child] = readFileSync(`/proc/${command.pid}/task/${command.pid}/children`, 'utf8').split(' ');
      // Seconds: the kernel has begun.
      expect(processor(child!)).toBeGreaterThan(3);
      return child!;
    });
    command.kill('SIGKILL');
    await until(() => expect(existsSync(`/proc/${pid}`)).toBe(false));
  },
);

const noTools = { PATH: place.path('none'), CUDA_HOME: '', CUDA_PATH: '' };
it.each([
  ['test nothing', /^there is no kernel card in nothing: name a folder with a card\.ts or card\.mjs\n$/],
  ['test gelu/gelu.cu', /^gelu\/gelu\.cu is no kernel card: name a folder with a card, or use kernel test /],
  [
    'test gelu --dtype bf16',
    /^no kernel of gelu can run in bf16 on cpu, its card takes fp32, bf16: on a CPU tensors are fp32: choose another --device\n$/,
  ],
  ...['tf32', 'fp8'].map((dtype): [string, RegExp] => {
    const takes = 'its card takes fp32, bf16: add the dtype to the card, or name another';
    return [`test gelu --dtype ${dtype}`, new RegExp(`^no kernel of gelu can run in ${dtype} on cpu, ${takes}`)];
  }),
  ['test gelu --dtype fp16', /^--dtype takes one of fp32, tf32, bf16, fp8, not "fp16"/],
  ['test gelu --time-limit 0', /^--time-limit takes /],
  ['watch nothing', /^cannot watch nothing: ENOENT.*; name a folder with a card\n$/],
  ['watch nothing --serve 0', /^cannot watch nothing: ENOENT.*; name a folder with a card\n$/],
  [
    'profile gelu',
    /^kernel profile measures on a GPU, and the device is cpu: `(npx gpt2|npm run gpt2 --) kernel show gelu --gpu 9\.0` needs no GPU\n$/,
  ],
])('kernel %s is refused on a CPU', async (line, message) => {
  const { code, stdout, stderr } = await place.here(`kernel ${line} --device cpu`, noTools);
  expect(stderr).toMatch(message);
  expect(code).toBe(stderr.startsWith('--') ? 2 : 1);
  expect(stdout.replace(/^live page: .*\n/, '')).toBe('');
});

it.skipIf(existsSync('/usr/local/cuda/bin/ncu'))('kernel profile needs ncu (where it is not installed)', async () => {
  const { stdout, stderr } = withCode(1, await place.here('kernel profile gelu --device cuda', noTools));
  expect(stderr).toMatch(/^ncu is missing: it is part of Nsight Compute, .*; install it, add its folder to PATH, or/);
  expect(stdout).toBe('');
});

it('kernel test --sanitize runs the tests under each check of compute-sanitizer, and passes on its output', () => {
  const tool = `[ "$1" = --version ] && exit
echo "$1 $2 $3 $4 $5 $6"
check=$2
shift 6
"$@" && [ $check != racecheck ]`;
  place.script('toolkit/bin/compute-sanitizer', tool);
  const env = { CUDA_HOME: place.path('toolkit') };
  const { stdout } = withCode(1, place.run('kernel test gelu --device cpu --dtype fp32 --sanitize', env));
  const each = ['memcheck', 'racecheck', 'initcheck'].map(
    (check) =>
      `${check}:\n--tool ${check} --error-exitcode 1 --report-api-errors no\ngelu_forward fp32  right at 3 sizes\n`,
  );
  expect(stdout).toBe(`${each.join('')}found something: racecheck\n`);
});

it('a kernel that the source lacks is named with the source', async () => {
  newKernels(place.path('lacking'), { card: (text) => text.replace("kernel: 'gelu_forward'", "kernel: 'gelu'") });
  const { stdout } = await test('lacking', '--dtype', 'fp32');
  expect(stdout).toMatch(/^there is no kernel gelu in \S+lacking\/gelu\.cu: it has gelu_forward\n/);
});

it('says that bf16 is not tested, and shows its errors where a compiler for GPUs is found', async () => {
  const { source } = newKernels(place.path('wide'));
  const untested =
    /^gelu_forward bf16 {2}is not tested here: on a CPU tensors are fp32; it runs on a GPU(?: \((.*) compiles it\))?$/m;
  const right = withCode(0, await test('wide'));
  expect(right.stdout).toMatch(untested);
  expect((await test('wide', '--dtype', 'fp32')).stdout).not.toContain('bf16');
  if (untested.exec(right.stdout)![1] === undefined) return;
  edit(source, (text) => `${text}static_assert(sizeof(element) == 4, "is fp32");\n`);
  const wrong = withCode(1, await test('wide'));
  expect(wrong.stdout).toMatch(
    /runs on a GPU, but does not compile:\n\S+gelu\.cu:\d+: error: static assertion .*is fp32/,
  );
  expect(wrong.stdout).toMatch(/^wrong: gelu_forward bf16$/m);
});

it('a compiler that is named and cannot be used is not the same as none', () => {
  const { stdout } = withCode(1, place.run('kernel test gelu --device cpu', { GPT2_NVRTC_LIB: place.path('none.so') }));
  expect(stdout).toMatch(/runs on a GPU, but does not compile:\n\S+none\.so is not a usable NVRTC: /);
});

it('an import without an extension, and a folder instead of a file, are rejected in one line', async () => {
  const { card, source } = newKernels(place.path('paths'));
  const cardText = readFileSync(card, 'utf8');
  mkdirSync(place.path('paths/sub'));
  writeFileSync(place.path('paths/sizes.mjs'), 'export const block = 256;\n');
  for (const name of ['./sizes', './sub']) {
    writeFileSync(card, `import { block } from '${name}';\n${cardText}`);
    expect((await test('paths', '--dtype', 'fp32')).stderr).toMatch(
      /^the kernel card paths\/card\.ts cannot be loaded: .*; name files with their extension, as \.\/launches\.mjs, and install packages\n$/,
    );
  }
  writeFileSync(card, cardText);
  edit(source, (text) => `#include "sub"\n${text}`);
  expect((await test('paths', '--dtype', 'fp32')).stdout).toMatch(/gelu\.cu:1: error: the header sub is missing: /);
});

const args = 'args: [out, x, count]';
it.each([
  ['dtypes:', 'dtype:', /^the card of gelu_forward in \S+card\.ts has "dtype": did you mean dtypes\?\n$/],
  [args, 'arg: [out, x, count]', /^a launch of gelu_forward in \S+card\.ts has "arg": did you mean args\?\n/m],
  [args, '', /^a launch of gelu_forward in \S+card\.ts has no args, the list of the kernel's arguments\n/m],
  [
    args,
    'args: [] }, undefined, { args: []',
    /^a launch of gelu_forward in \S+card\.ts is undefined: leave it out of the list\n/m,
  ],
  [args, 'args: [out, x, count], stream: 1', /has "stream": it takes kernel, grid, block, shared, args\n/],
])('a card with %j changed to %j is refused', async (from, to, message) => {
  const folder = `card-with-${to.replaceAll(/\W+/g, '-')}`;
  newKernels(place.path(folder), { card: (text) => text.replace(from, to) });
  const { stdout, stderr } = withCode(1, await test(folder, '--dtype', 'fp32'));
  expect(stdout + stderr).toMatch(message);
});

it('a card names the instances of a template, also by the macro ELEMENT', async () => {
  const from = '__global__ void gelu_forward(';
  const { card } = newKernels(place.path('template'), {
    source: (text) => text.replace(from, `template <class T, int BLOCK>\n${from}`).replaceAll(/element (?=\*)/g, 'T '),
  });
  const text = readFileSync(card, 'utf8');
  const instance = "'gelu_forward<ELEMENT, 256>'";
  const named = (name: string) =>
    text
      .replace("kernel: 'gelu_forward'", `kernel: ${name}`)
      .replace('launches', `instantiate: [${instance}], launches`);
  writeFileSync(card, named(instance));
  expect((await test('template', '--dtype', 'fp32')).stdout).toMatch(/^all right: gelu_forward fp32/m);
  writeFileSync(card, named("'gelu_forward<ELEMENT, 128>'"));
  expect((await test('template', '--dtype', 'fp32')).stdout).toMatch(
    /^there is no kernel gelu_forward<float, 128> in \S+gelu\.cu: it has gelu_forward<float, 256>; add the instance of a template to instantiate\n/m,
  );
});

it('kernel list finds only cards in a clone', async () => {
  for (const { folder, ops } of await findCards(packageRoot)) expect(ops, folder).toBeInstanceOf(Array);
});

it('kernel watch goes again at every save of a source, card or import, and survives what a card does', async () => {
  const { card } = newKernels(place.path('watched'), {
    card: (text) => `import { block } from './launches.mjs';\n${text.replace(/block: \d+/, 'block')}`,
  });
  writeFileSync(place.path('watched/launches.mjs'), "export * from './sizes.mjs';\n");
  writeFileSync(place.path('watched/sizes.mjs'), 'export const block = 256;\n');
  const child = place.start(['kernel', 'watch', 'watched', '--device', 'cpu']);
  onTestFinished(() => void process.kill(-child.pid!, 'SIGKILL'));
  const rounds = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** The lines of a round, to its end. */
  const round = async (): Promise<string> => {
    let lines = '';
    for (;;) {
      const { value, done } = await rounds.next();
      lines += `${value}\n`;
      if (done || /^took /.test(value)) return lines;
    }
  };
  const first = await round();
  expect(first).toMatch(/^watched at \d\d:\d\d:\d\d\n/);
  expect(first).toMatch(/gelu_forward fp32 {2}right at 3 sizes/);
  // Times of the emulator say nothing.
  expect(first).not.toContain('of bound');
  expect(first).toMatch(/took \S+ s \(compiling \S+, testing \S+\); waits for the next save, Ctrl-C ends\n$/);
  const text = readFileSync(card, 'utf8');
  writeFileSync(card, `process.kill(process.pid, 'SIGSEGV');\n${text}`);
  expect(await round()).toMatch(/watched: the process for kernels was ended by SIGSEGV/);
  writeFileSync(card, 'export default [];');
  expect(await round()).toMatch(
    /the kernel card .* exports nothing: write export default defineKernel.*\ntook \S+ s; /,
  );
  writeFileSync(card, text);
  const lines = (given: string) => given.split('\n').filter((line) => /gelu_forward/.test(line)).length;
  expect(lines(await round())).toBe(lines(first));
  writeFileSync(place.path('watched/sizes.mjs'), 'export const block = 0;\n');
  expect(await round()).toMatch(/gelu_forward: the block 0 x 1 x 1 cannot be launched/);
  const folder = place.path('watched');
  cpSync(folder, `${folder}-copy`, { recursive: true });
  rmSync(folder, { recursive: true });
  await round();
  renameSync(`${folder}-copy`, folder);
  while (!(await round()).includes('gelu_forward: the block 0'));
  writeFileSync(place.path('watched/sizes.mjs'), 'export const block = 256;\n');
  while (!(await round()).includes('gelu_forward fp32  right at 3 sizes'));
});

it('kernel watch --serve shows every part of a round in a browser, and what is wrong and where', async () => {
  const { card, source } = newKernels(place.path('served'));
  const text = readFileSync(source, 'utf8');
  const child = place.start(['kernel', 'watch', 'served', '--device', 'cpu', '--serve', '0']);
  let viewer: StreamViewer | undefined;
  try {
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const [, url] = /^live page: (http:\/\/127\.0\.0\.1:\d+\/)$/.exec((await lines.next()).value)!;
    const page = await fetch(url!);
    const policy = page.headers.get('content-security-policy');
    expect([page.status, policy]).toEqual([200, expect.stringMatching(/^default-src 'none'/)]);
    viewer = new StreamViewer(url!);
    const round = () => viewer!.data.kernels as KernelRound;
    const ends = (state: string, kernel: object) =>
      until(() => expect(round()).toMatchObject({ folder: 'served', state, kernels: [kernel] }));
    const tested = Array(3).fill([/^count \d+$/, /^\d+$/, /^\d+%$/].map((text) => expect.stringMatching(text)));
    await ends('right', { name: 'gelu_forward fp32', state: 'right', sentence: 'right at 3 sizes', tested, times: [] });
    expect(round().history).toEqual([]);
    expect(round().spent.compiling).toBeGreaterThan(0);
    expect(round().spent.testing).toBeGreaterThan(0);

    writeFileSync(source, text.replace('if (i >= count) return;', 'if (i >= count || i % 64 == 7) return;'));
    const marks = expect.arrayContaining([expect.stringMatching(/^\.#\.+#/)]);
    await ends('wrong', {
      sentence: expect.stringMatching(/^count 4096: out is wrong in 64 of 4096 elements .*; wrong at 2 of 3 sizes$/),
      wrong: {
        map: { rows: 12, columns: 342, each: [1, 6], marks },
        inputs: [expect.stringMatching(/^in\[7\] = -?\d/)],
      },
    });

    writeFileSync(source, text.replace('tanhf', 'tanhh'));
    await ends('notCompiled', {
      sentence: 'does not compile',
      error: expect.stringMatching(/gelu\.cu:13:.*error.*tanhh/),
    });
    expect(round().spent.compiling).toBeGreaterThan(round().spent.testing);
    expect(round().history.map(([, result]) => result)).toEqual([
      'gelu_forward fp32: wrong at 2 of 3 sizes',
      'gelu_forward fp32: right at 3 sizes',
    ]);

    writeFileSync(card, 'export default [];');
    await until(() =>
      expect(round()).toMatchObject({ state: 'wrong', kernels: [], error: expect.stringMatching(/exports nothing/) }),
    );
    const states = new Set(viewer.told.filter((name) => name !== 'idle'));
    expect([...states]).toEqual(['kernels']);
  } finally {
    viewer?.close();
    process.kill(-child.pid!, 'SIGKILL');
  }
});

it('train --kernel without a card, and a program that gives a text, are refused', async () => {
  const data = place.data();
  const kernels = '--kernel gelu --kernel none --model custom';
  const { stderr } = await place.here(`train --data ${data} ${tinyModel.join(' ')} ${kernels}`);
  expect(stderr).toMatch(/^there is no kernel card in none: /m);
  await expect(train({ kernels: 'gelu' as never })).rejects.toThrow('kernels takes texts, not "gelu"');
});

it('a file of options has a list of them', () => {
  writeFileSync(place.path('options.json'), JSON.stringify({ kernels: ['a', 'b'] }));
  expect(readOptionsFile(place.path('options.json'))).toEqual({ kernels: ['a', 'b'] });
  writeFileSync(place.path('options.json'), JSON.stringify({ kernels: 'a' }));
  expect(() => readOptionsFile(place.path('options.json'))).toThrow('--kernel takes texts, not "a"');
});
