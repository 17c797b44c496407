// `compare` as a user calls it: what it prints, what it draws, and the errors that become exit codes.
import { constants, existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Configuration } from '../../src/options/table.ts';
import { readReference } from '../../src/report/compare/reference.ts';
import { lockRun } from '../../src/runs/lock.ts';
import type { RunSeries } from '../../src/runs/reader.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';

const d6 = 'llmc-d6-fp32-b4-t64';
const reference = readReference(d6);
const { series } = reference;

const place = workplace('each');
// The folder "run", whose curves are the reference's.
beforeEach(() => writeRun({}));

/** A run folder whose log holds these series, and more events. */
function writeRun(
  given: Partial<RunSeries>,
  changes: Partial<Configuration> = {},
  name = 'run',
  ...more: readonly RunEvent[]
): void {
  const { train, val, norm, lr } = { ...series, ...given };
  const [norms, rates] = [new Map(norm), new Map(lr)];
  writeLog(place.path(name), [
    runEvent(changes),
    ...val.map(([step, loss]) => ({ event: 'val', step, loss }) as const),
    ...train.map(([step, loss]) => trainEvent(step, loss, norms.get(step), rates.get(step))),
    ...more,
  ]);
}

/** The output of `compare run ...` that ends without an error. */
const shown = async (args = '', env = {}) => (await place.okHere(`compare run ${args}`, env)).stdout;
const json = async (args = '') => JSON.parse(await shown(`${args} --json`));

/** The one line in which it ends, and its output. */
async function refused(args = '', code = 1): Promise<{ message: string; stdout: string }> {
  const { stdout, stderr, ...ended } = await place.here(`compare run ${args}`);
  expect(ended.code, stderr).toBe(code);
  expect(stderr).toMatch(/^[^\n]+\n$/);
  return { message: stderr.trimEnd(), stdout };
}

const drawn = (file: string) => readFileSync(place.path(file), 'utf8');
const changed = (points: RunSeries['train'], step: number, by: number): RunSeries['train'] =>
  points.map(([at, value]) => [at, at === step ? value + by : value]);
const shifted = (by: number) => series.train.map(([step, loss]) => [step, loss + by] as const);
/** Another reference, in the file own.json. */
const writeReference = (more: object = {}) =>
  place.file('own.json', JSON.stringify({ ...reference, name: 'own', ...more }));

describe('inside', () => {
  it('prints the table and the verdict, draws the plot into the run folder', async () => {
    const stdout = await shown();
    expect(stdout).toContain(`run vs ${d6}\n`);
    expect(stdout).toMatch(/^train +400 +0 +0 +0 +none +6\.2431 +6\.2431$/m);
    expect(stdout).toMatch(/^lr +400 .* 6\.00e-5 +6\.00e-5$/m);
    expect(stdout).toContain('last validation in common, at step 400: 5.8942, reference 5.8942');
    expect(stdout).toContain('steps with a limit: train 120 of 400, val 9 of 9, norm 100 of 400, lr 400 of 400');
    expect(stdout).toMatch(/plot: run\/compare\.svg\nreport: run\/compare\.html\n$/);
    expect(drawn('run/compare.svg')).toContain(`run vs ${d6}`);
  });

  it('a run that has just begun is compared as far as it goes', async () => {
    writeRun({ train: series.train.slice(0, 3), val: [] });
    const stdout = await shown();
    expect(stdout).toMatch(/^train +3 /m);
    expect(stdout).toMatch(/^val +0 +- +- +- +none +- +-$/m);
    expect(stdout).not.toContain('last validation');
  });

  it('--reference takes a file, --out a place, --tolerance another limit', async () => {
    writeReference({ configuration: { batch: 4 }, limits: [] });
    writeRun({ train: changed(series.train, 7, 0.3) });
    await shown('--reference own.json --out plot.svg');
    expect(['plot.svg', 'run/compare.svg'].map((name) => existsSync(place.path(name)))).toEqual([true, false]);
    const stdout = await shown('--tolerance 0.5');
    expect(stdout).toContain('inside the limit of --tolerance 0.5; steps with a limit: train 400 of 400');
  });
});

describe('outside', () => {
  it('prints the table and draws the plot, then names series, step, distance and limit', async () => {
    writeRun({ train: changed(changed(series.train, 7, -0.001), 300, 9) });
    const { message, stdout } = await refused();
    expect(message).toBe(`outside the limits of ${d6}: train at step 7 is off by 1.00e-3, over 2.00e-4`);
    expect(stdout).toMatch(/^train +400 +9\.0000 +300 .* 7 /m);
    expect(stdout).not.toContain('inside');
    expect(existsSync(place.path('run/compare.svg'))).toBe(true);
  });

  it('names every series that is, a mean among them', async () => {
    const limits = [
      { series: 'train', kind: 'mean', from: 0, to: 9, within: 0.001 },
      { series: 'val', from: 0, to: 400, within: 0.001 },
    ];
    writeReference({ limits });
    writeRun({ train: changed(series.train, 5, 0.1), val: changed(series.val, 50, 0.01) });
    const { message, stdout } = await refused('--reference own.json');
    expect(message).toBe(
      'outside the limits of own: train is off by 1.00e-2 on average over steps 0 to 9, over 1.00e-3; val at step 50 is off by 1.00e-2, over 1.00e-3',
    );
    expect(stdout).toContain('mean of 0-9');
  });
});

describe('other validations, other data', () => {
  it('validated otherwise than the reference: inside, without val, and the flag that gives it', async () => {
    writeRun({}, { valSteps: 7 });
    const stdout = await shown();
    expect(stdout).not.toMatch(/^val |last validation/m);
    expect(stdout).toContain(
      `\nleft out: val, validated on other tokens; --val-steps 20 gives the reference's (train --preset ${d6})\n`,
    );
    expect(stdout).toContain('steps with a limit: train 120 of 400, norm 100 of 400, lr 400 of 400\n');
    expect((await json()).series.map((one: { series: string }) => one.series)).toEqual(['train', 'norm', 'lr']);
    expect(drawn('run/compare.svg').match(/<circle/g)?.length).toBeLessThan(2 * series.val.length);
    const { curves } = JSON.parse(/id="data">(.*)<\/script>/.exec(drawn('run/compare.html'))![1]!);
    expect(curves[0].series.val.values).toEqual([]);
    await shown('--tolerance 0');
  });

  it('of other data: said first, with bits per byte, and no tolerance judges it', async () => {
    const val = { event: 'val', step: 400, loss: 2.5, tokens: 1000, bytes: 4000 } as const;
    writeRun({}, {}, 'run', val);
    writeRun({}, { data: 'data/own-source', vocabularySize: 512 }, 'other', { ...val, bytes: 2000 });
    const reason =
      'losses of training and validation cannot be compared: data data/own-source instead of data/tinyshakespeare, vocabularySize 512 instead of 50257; bits per byte 1.8034 instead of 0.9017';
    const stdout = await shown('other');
    expect(stdout.slice(0, stdout.indexOf('series'))).toBe(`${reason}\nother vs run\n`);
    expect(stdout).not.toMatch(/^(train|val) /m);
    expect(await json('other')).toMatchObject({ unlike: [reason], bitsPerByte: expect.closeTo(1.8034, 4) });
    expect(drawn('compare.html')).toContain(`"other vs run: ${reason}"`);
    expect((await refused('other --tolerance 9')).message).toBe(`${reason}; leave out --tolerance`);
  });

  it('ties are marked in text, JSON and report', async () => {
    const runs = { run: [0, 0, 0, 0], b: [0.1, -0.1, 0.1, 0], c: [0.5, 0.5, 0.6, 0.4] };
    for (const [name, by] of Object.entries(runs)) {
      const sequenceLosses = [4, 5, 6, 5].map((loss, index) => loss + by[index]!);
      const loss = sequenceLosses.reduce((sum, one) => sum + one, 0) / 4;
      const val = { event: 'val', step: 400, loss, tokens: 256, sequenceLosses } as const;
      writeRun({}, { seed: name.length + by[0]! * 10 }, name, val);
    }
    expect(await shown('b c')).toContain(`Ranking by last validation loss
run  seed  last val               behind  best val  at step    steps    state
run     3    5.0000                    -    5.0000      400  400/400  stopped
b       2    5.0250  0.0250 ± 0.0479 tie    5.0250      400  400/400  stopped
c       6    5.5000      0.5000 ± 0.0408    5.5000      400  400/400  stopped
tie: behind the least by less than 0.00005 or twice the standard error (±) over the sequences; seeds can differ by more
`);
    const behind = (await json('b c')).ranking.map((one: { behind: { isTie: boolean } | null }) => one.behind?.isTie);
    expect(behind).toEqual([undefined, true, false]);
    expect(drawn('compare.html')).toContain('"0.0250 ± 0.0479 tie"');
  });
});

describe('several', () => {
  it('runs of one configuration each over its reference; what is outside is told run by run', async () => {
    writeRun({ train: changed(series.train, 7, 0.3) }, {}, 'other');
    const { message, stdout } = await refused('other');
    expect(message).toBe(`outside the limits of ${d6} is other: train at step 7 is off by 0.3000, over 2.00e-4`);
    expect(stdout).toContain(`run vs ${d6}\n`);
    expect(stdout).toContain(`\n\nother vs ${d6}\n`);
    expect(drawn('compare.svg')).toContain('>other, validation<');
  });

  it('runs without a common reference over the first of them, with what they differ in', async () => {
    const changes = { learningRate: 1e-3, device: 'cuda', optimizer: 'of the program' as never };
    writeRun({ train: shifted(0.25) }, changes, 'other');
    const stdout = await shown('other');
    expect(stdout).toContain('other vs run\n');
    expect(stdout).toMatch(/^train +400 +0\.2500 +\d+ +0\.2500 +- +6\.4931 +6\.2431$/m);
    expect(stdout).toContain("with learningRate 0.001 instead of 0.0006, optimizer the program's instead of adamw\n");
    expect(stdout).toContain('a run has no limits: --tolerance sets one');
    expect(stdout).not.toContain('inside');
  });

  it('says what was configured otherwise before a resume', async () => {
    writeRun({}, { dtype: 'fp8' }, 'run', { ...runEvent({ dtype: 'fp32' }), resumedFrom: 200 });
    writeRun({}, {}, 'other');
    const stdout = await shown('other');
    expect(stdout).toContain('run: until step 200 configured with dtype fp8 instead of fp32\n');
    expect(stdout).not.toContain('other: until');
  });

  it('--reference names a run, whatever its configuration; --tolerance then judges', async () => {
    writeRun({ train: shifted(0.25) }, { seed: 7 }, 'other');
    await shown('--reference other');
    const { message, stdout } = await refused('--reference other --tolerance 0.1');
    expect(stdout).toContain('run vs other\n');
    expect(message).toMatch(/^outside the limits of other: train at step 0 is off by 0\.2500, over 0\.1000/);
  });

  it('a learning rate and its differences are written in one form', async () => {
    writeRun({ lr: series.lr.map(([step, rate]) => [step, rate + 3e-4]) }, { seed: 7 }, 'other');
    expect(await shown('--reference other')).toMatch(/^lr +400 +3\.00e-4 +\d+ +3\.00e-4 +- +6\.00e-5 +3\.60e-4$/m);
    writeRun({ lr: series.lr.map(([step]) => [step, 1e20]) }, { seed: 7 }, 'other');
    expect(await shown('--reference other')).toMatch(/^lr +400 +1\.00e\+20 .* 6\.00e-5 +1\.00e\+20$/m);
  });

  it('of runs that share a beginning, the last validation is said to be of both', async () => {
    writeRun({ val: series.val.slice(0, 1) }, { seed: 7 }, 'other');
    const stdout = await shown('--reference other');
    expect(stdout).toContain('last validation in common, at step 0: 10.8722, reference 10.8722');
    expect(stdout).not.toContain('final');
  });

  it('--reference more than once: over each', async () => {
    writeReference();
    expect(await shown(`--reference ${d6} --reference own.json`)).toMatch(new RegExp(`vs ${d6}\n[\\s\\S]*vs own\n`));
  });

  it('more than two without a reference: one ranking by validation loss, with the options that differ', async () => {
    writeRun({}, { learningRate: 1e-3 }, 'run', { event: 'done', steps: 400, seconds: 1, weights: 'x' });
    const val = (last: number) => [[0, 10.9], [50, 5.1], [100, last]] as const; // biome-ignore format: one line
    const ofBest = { seed: 7, device: 'cuda', valEvery: 5, data: '/a/tinyshakespeare' };
    writeRun({ val: val(5.5) }, ofBest, 'best');
    writeRun({ val: val(Number.NaN), train: [[0, 9]] }, {}, 'bad', { ...notFinite, step: 1 });
    writeRun({ val: [], train: [] }, { batch: 8 }, 'none');
    const lock = lockRun(place.path('none'), constants.O_RDWR)!;
    const [stdout, { ranking }] = [await shown('bad none best'), await json('bad none best')];
    lock.close();
    expect(stdout).toBe(`Ranking by last validation loss
run   seed  batch      lr  last val  best val  at step    steps     state
best     7      4  0.0006    5.5000    5.1000       50  400/400   stopped
run     42      4   0.001    5.8942    5.8942      400  400/400  finished
bad     42      4  0.0006         -    5.1000       50    1/400    failed
none    42      8  0.0006         -         -        -    0/400   running
plot: compare.svg
report: compare.html
`);
    expect(ranking[0]).toEqual({
      ...{ run: 'best', name: 'best', options: { batch: 4, learningRate: 6e-4, seed: 7 }, last: 5.5 },
      ...{ behind: null, bitsPerByte: null, best: { step: 50, loss: 5.1 }, steps: 400, ofSteps: 400, state: 'stopped' },
    });
    const report = drawn('compare.html');
    expect(report).toContain('"title":"Ranking by last validation loss"');
    // None is the baseline of the others.
    expect(report).toContain('"title":"4 runs"');
    expect(report).toContain('"baseline":-1');
    expect(drawn('compare.svg')).not.toContain('|difference|');
    expect((await place.here('compare run bad best --tolerance 0.1')).stdout).toContain('best vs run\n');
    expect((await place.here('compare run best none --reference bad')).stdout).not.toContain('Ranking');
  });

  it('of one folder are plotted there, and the plot in it is no run; of several folders, in the first', () => {
    for (const name of ['sweep/seed=1', 'sweep/seed=2']) writeRun({}, {}, name);
    const names = ['sweep/compare.html', 'sweep/compare.svg', 'sweep/seed=1', 'sweep/seed=2'];
    for (const given of [names.slice(2), names]) {
      const { stdout } = place.ok(['compare', ...given]);
      expect(stdout).toMatch(/\nplot: sweep\/compare\.svg\nreport: sweep\/compare\.html\n$/);
      expect(readdirSync(place.path('sweep'))).toEqual(names.map((name) => basename(name)));
    }
    expect(readdirSync(place.path('sweep/seed=1'))).toEqual(readdirSync(place.path('sweep/seed=2')));
    expect(place.run('compare run sweep/seed=1').stdout).toMatch(/\nplot: run\/compare\.svg\n/);
  });

  it('--json: one object with a list', async () => {
    writeRun({}, {}, 'other');
    const comparisons = ['run', 'other'].map((run) => ({ run, inside: true }));
    expect(await json('other')).toMatchObject({ plot: 'compare.svg', report: 'compare.html', comparisons });
  });

  it('one that is not configured as the reference given is named', async () => {
    writeRun({}, { batch: 8 }, 'other');
    const { message } = await refused(`other --reference ${d6}`);
    expect(message).toContain(`other is not configured as ${d6}: batch 8 instead of 4;`);
  });
});

const notFinite = { event: 'nonFinite', step: 9, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' } as const;
describe('how runs ended', () => {
  const text = 'not finite at step 9 of 400: NaN in layer 3';

  it('alone, over a reference, in JSON', async () => {
    writeRun({ train: series.train.slice(0, 9), val: [] }, {}, 'run', notFinite);
    expect(await shown()).toContain(`\nrun: ${text}\n`);
    expect(drawn('run/compare.html')).toContain(`"run: ${text}"`);
    expect(await json()).toMatchObject({ end: { state: 'notFinite', text } });
    writeRun({}, { data: 'data/own-source' }, 'run', { event: 'done', steps: 400, seconds: 1, weights: 'x' });
    expect(await shown()).toContain('\nfinished after 400 of 400 steps\n');
  });

  it('of two runs, both', async () => {
    writeRun({}, {}, 'run', notFinite);
    writeRun({ train: series.train.slice(0, 9) }, { seed: 7 }, 'other');
    expect(await shown('--reference other')).toContain(`\nrun: ${text}\nother: not finished, 9 of 400 steps done: `);
  });
});

describe('what is drawn', () => {
  it('a report beside the plot, or where --html says; a PNG by the name of --out', async () => {
    await shown('--out a.svg');
    expect(drawn('a.html')).toContain(`run vs ${d6}`);
    await shown('--out b.svg --html c.htm');
    expect(['c.htm', 'b.html'].map((name) => existsSync(place.path(name)))).toEqual([true, false]);
    await shown('--out a.png');
    expect(readFileSync(place.path('a.png')).subarray(1, 4).toString()).toBe('PNG');
  });

  it('--plot draws in the terminal, without colours where stdout is none', async () => {
    const stdout = await shown('--plot', { NO_COLOR: '' });
    expect(stdout).toContain('training loss (nats), smoothed');
    expect(stdout).toContain('  * run\n');
    expect(stdout).not.toContain('\u001b');
  });

  it('a plot that cannot be written: the figures, then one line', async () => {
    const { message, stdout } = await refused('--out run/log.jsonl/plot.svg');
    expect(message).toMatch(/cannot write the plot .*plot\.svg: .*; name another file with --out/);
    expect(stdout).toContain('inside the limits');
    expect(stdout).not.toContain('plot:');
  });
});

describe('--over', () => {
  it.each([
    ['tokens', 'thousand tokens', 409.6],
    ['seconds', 'seconds of training', 0.4],
  ])('plot, report and terminal are over %s; table, verdict and ranking stay by step', async (over, label, last) => {
    writeRun({}, { totalBatch: 1024 }, 'other');
    const overSteps = await shown('other');
    const stdout = await shown(`other --over ${over} --plot`);
    expect(stdout.split('\n')).toEqual(expect.arrayContaining(overSteps.split('\n')));
    expect(stdout).toMatch(new RegExp(`^ +${label}$`, 'm'));
    expect(drawn('compare.svg')).toContain(`>${label}<`);
    expect(drawn('compare.html')).toContain(`"axis":{"label":"${label}","unit":"${label}",`);
    expect(Number(/"last":([\d.]+)/.exec(drawn('compare.html'))![1])).toBeCloseTo(last);
    writeRun({}, { seed: 7 }, 'third');
    const ranking = await shown('other third');
    expect(ranking).toContain('Ranking');
    expect(await shown(`other third --over ${over}`)).toBe(ranking);
  });

  it('a reference has tokens and no seconds: one line, and nothing is written', async () => {
    expect(await shown('--over tokens')).toContain('inside the limits');
    expect(await refused('--over seconds --out seconds.svg')).toEqual({
      message: `${d6} does not record the seconds before step 400: take another --over, or a run as --reference`,
      stdout: '',
    });
    expect(existsSync(place.path('seconds.svg'))).toBe(false);
  });
});

describe('no reference to be judged by', () => {
  it('own data: its own table, the plot, and exit 0', async () => {
    writeRun({}, { data: 'data/own-source' });
    const stdout = await shown();
    expect(stdout).toContain("no reference has this run's configuration; its own figures:");
    expect(stdout).toMatch(/^train +400 +10\.8719 +4\.\d+ +6\.2431$/m);
    expect(stdout).toMatch(/^lr +400 +1\.50e-5 +1\.50e-5 +6\.00e-5$/m);
    expect(stdout).not.toContain('nearest');
    expect(drawn('run/compare.svg')).not.toContain('reference');
  });

  it('--tolerance has nothing to judge by, which is a usage error and writes nothing', async () => {
    writeRun({}, { data: 'data/own-source' });
    const { message, stdout } = await refused('--tolerance 0.1', 2);
    expect(message).toMatch(/^--tolerance needs something to compare .*run with: .*--reference.*second run$/);
    expect([stdout, existsSync(place.path('run/compare.svg'))]).toEqual(['', false]);
  });

  it.each<[Partial<Configuration>, string]>([
    [{ steps: 100, warmup: 0 }, 'steps 100 instead of 400, warmup 0 instead of 40'],
    [{ order: 'sequence' }, 'order sequence instead of llmc\n'],
  ])('a reference that is nearly it is named with what differs: %j', async (changes, differences) => {
    writeRun({}, changes);
    expect(await shown()).toContain(`nearest: ${d6} (train --preset ${d6}), but ${differences}`);
  });

  it('a run that was told to be compared with another configuration is refused field by field', async () => {
    writeRun({}, { batch: 8, seed: 1 });
    expect(await refused(`--reference ${d6}`)).toEqual({
      message: `the run is not configured as ${d6}: batch 8 instead of 4, seed 1 instead of 42; train with these (train --preset ${d6}), or name another --reference`,
      stdout: '',
    });
  });

  it('a run without a step yet is not inside', async () => {
    writeRun({ train: [], val: [] });
    expect((await refused()).message).toContain(`has no step in common with ${d6} yet`);
  });
});

describe('--json', () => {
  it('one object on stdout and nothing else; numbers that JSON lacks are words', async () => {
    writeRun({ train: changed(series.train, 3, Number.NaN) });
    expect(JSON.parse((await refused('--json')).stdout)).toMatchObject({
      ...{ reference: d6, inside: false, finalValidation: { step: 400, run: 5.8942, reference: 5.8942 } },
      series: [{ series: 'train', worst: { step: 3, difference: 'Infinity' } }, {}, {}, {}],
    });
  });

  it('without a reference the own figures', async () => {
    writeRun({ val: [] }, { data: 'data/own-source' });
    const train = { series: 'train', steps: 400, first: 10.8719, last: 6.2431 };
    const val = { series: 'val', steps: 0, first: null, least: null };
    expect(await json()).toMatchObject({ reference: null, series: [train, val, {}, {}] });
  });
});
