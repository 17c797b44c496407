// The exercises of the course: none is solved as it is handed out, and test/kernels/solutions solves each.
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { exercises } from '../../src/lab/course.ts';
import { withCode, workplace } from '../support/cli.ts';
import { edit } from '../support/lab.ts';

const place = workplace();

const names = readdirSync(exercises)
  .filter((name) => name !== 'README.md')
  .sort();
const solutions = fileURLToPath(new URL('../kernels/solutions', import.meta.url));
const check = async () => {
  const { code, stdout, stderr } = await place.here(['course', 'check', 'mine']);
  expect(stderr).toBe('');
  const states = [...stdout.matchAll(/^(\S+) +(open|wrong|solved \d{4}-\d\d-\d\d)$/gm)];
  return { code, stdout, open: states.filter(([, , state]) => state === 'open').map(([, name]) => name) };
};

it('every exercise is open at first, and the next one says what is wrong', async () => {
  const started = await place.here(['course', 'start', 'mine']);
  expect(started.stdout).toMatch(/^wrote the exercises to mine; next: .* course check mine\n$/);
  const { stdout, open } = withCode(1, await check());
  expect(open).toEqual(names);
  const next = '\\nnext: mine/01-add/add.cu\\n  residual_forward fp32 .* out is wrong in ';
  expect(stdout).toMatch(new RegExp(`^0 of ${names.length} solved${next}`, 'm'));
});

it.each(names)('%s compiles before it is solved', async (name) => {
  const { stdout } = await place.here(['kernel', 'test', `mine/${name}`, '--device', 'cpu']);
  expect(stdout).toMatch(/^[\w.]+ fp32 .* is wrong in | races: /m);
});

it('the solutions solve all', async () => {
  for (const name of names) {
    const [source] = readdirSync(place.path('mine', name)).filter((file) => file.endsWith('.cu'));
    const path = place.path('mine', name, source!);
    const parts = readFileSync(`${solutions}/${name}.cu`, 'utf8').split('// Next hole.\n');
    const holes = /(?<=\/\/ Your code begins here.*\n)[\s\S]*?(?=^ *\/\/ It ends here\.)/gm;
    const text = readFileSync(path, 'utf8');
    expect(text.match(holes), name).toHaveLength(parts.length);
    const solved = text.replaceAll(holes, () => parts.shift()!);
    edit(path, () => solved);
  }
  const { code, stdout, open } = await check();
  expect([code, open], stdout).toEqual([0, []]);
  expect(stdout).toMatch(new RegExp(`^${names.length} of ${names.length} solved\\n$`, 'm'));
});

it('the score is kept, and only a change is tested again', async () => {
  const score = place.path('mine/score.json');
  edit(score, (text) => text.replaceAll(/"20\d\d-/g, '"2001-'));
  const source = place.path('mine/01-add/add.cu');
  edit(source, (text) => text.replace('a[i] + b[i];', 'a[i] - b[i];'));
  const { code, stdout, open } = await check();
  expect([code, open]).toEqual([1, []]);
  expect(stdout).toMatch(/^01-add +wrong$/m);
  expect(stdout.match(/ solved 2001-/g)).toHaveLength(names.length - 1);
});

it('a folder that exists, one without exercises, and a damaged score are refused', async () => {
  const said = async (line: string) => (await place.here(line)).stderr;
  const copy = /^there are no exercises in nothing: copy them there with .* course start nothing\n$/;
  expect(await said('course start mine')).toMatch(/^cannot start the course in mine: it exists, /);
  expect(await said('course check nothing')).toMatch(copy);
  place.file('mine/score.json', '{');
  expect(await said('course check mine')).toMatch(/^the score mine\/score\.json cannot be read: .*; delete it/);
});
