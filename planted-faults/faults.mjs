// Plants faults one at a time and records which test catches each.
//
//   node faults.mjs --repo DIR --out RESULTS.json [--faults faults.json] [--area-only] [--again] [--despite-failures] [ID...]
//
// DIR is a worktree whose files are as committed. First the tests of each area must pass without a fault. Then, for each fault: apply it,
// rebuild the CPU library if it is in cuda/, run its area's tests until one fails, restore the file. For faults that survive, the
// whole fast suite runs afterwards. RESULTS keeps what earlier calls found; faults in it are skipped, unless --again or the ID is
// given. With --despite-failures, tests that fail without a fault are left out instead of ending the program (of the fast suite
// they always are).
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';

const { values: options, positionals: wantedIds } = parseArgs({
  allowPositionals: true,
  options: {
    repo: { type: 'string' },
    out: { type: 'string' },
    faults: { type: 'string', default: join(import.meta.dirname, 'faults.json') },
    'area-only': { type: 'boolean', default: false },
    again: { type: 'boolean', default: false },
    'despite-failures': { type: 'boolean', default: false },
  },
});
if (!options.repo || !options.out) throw new Error('give --repo DIR and --out RESULTS.json');
const repo = resolve(options.repo);
const fastSuite = ['--exclude', 'test/{gpu,end-to-end}/**', '--exclude', '**/*.slow.test.ts'];
/** A test that waits for ever is failed by vitest's timeout; the rest is for a busy machine. */
const mostMinutes = { area: 120, suite: 300 };

const all = JSON.parse(readFileSync(options.faults, 'utf8'));
const unknown = wantedIds.filter((id) => all.every((fault) => fault.id !== id));
if (unknown.length > 0) throw new Error(`no fault is called ${unknown.join(', ')}`);

const out = existsSync(options.out) ? JSON.parse(readFileSync(options.out, 'utf8')) : { baseline: {}, faults: {} };
const save = () => {
  writeFileSync(`${options.out}.tmp`, `${JSON.stringify(out, null, 2)}\n`);
  renameSync(`${options.out}.tmp`, options.out);
};
const say = (text) => console.log(`${new Date().toTimeString().slice(0, 8)} ${text}`);

const git = (...args) => spawnSync('git', args, { cwd: repo, encoding: 'utf8' });
const head = git('rev-parse', 'HEAD').stdout.trim();
if (out.head !== undefined && out.head !== head)
  throw new Error(`${options.out} is of ${out.head}, ${repo} is at ${head}: name another file`);
out.head = head;

let running;
/** Runs a command in a process group of its own; rc is undefined if it ran out of time. */
function run(command, args, minutes) {
  return new Promise((done) => {
    const started = performance.now();
    const child = spawn(command, args, { cwd: repo, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    running = child;
    let text = '';
    let isLate = false;
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (text = (text + part).slice(-20_000)));
    const kill = () => {
      isLate = true;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {}
    };
    const timer = setTimeout(kill, minutes * 60_000);
    child.on('close', (rc) => {
      clearTimeout(timer);
      running = undefined;
      done({ rc: isLate ? undefined : rc, text, seconds: Math.round((performance.now() - started) / 1000) });
    });
  });
}

/** Runs tests. @returns seconds and the failures, of which a whole file may be one */
async function vitest(args, minutes, retries = 2) {
  const folder = mkdtempSync(join(tmpdir(), 'faults-'));
  const report = join(folder, 'report.json');
  const command = ['-n', '15', 'npx', 'vitest', 'run', ...args, '--maxWorkers', '1', '--reporter', 'json', '--outputFile', report];
  const { rc, text } = await run('nice', command, minutes);
  const results = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : undefined;
  rmSync(folder, { recursive: true });
  if (rc === undefined) throw new Error(`vitest did not end in ${minutes} minutes: ${text.slice(-500)}`);
  if (!results && retries > 0) {
    // Another program may have ended it.
    say(`vitest made no report (${rc}): tried again`);
    return vitest(args, minutes, retries - 1);
  }
  if (!results) throw new Error(`vitest made no report (${rc}): ${text}`);
  // Without the time that vitest waited for its turn.
  const seconds = Math.round((Date.now() - results.startTime) / 1000);
  const failures = results.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = relative(repo, name);
    const failed = assertionResults.filter((each) => each.status === 'failed');
    if (failed.length === 0 && status === 'failed') return [{ file, test: '(the file)', message: String(message).slice(0, 400) }];
    return failed.map(({ fullName, failureMessages }) => ({ file, test: fullName, message: failureMessages.join('\n').slice(0, 400) }));
  });
  if (rc !== 0 && failures.length === 0) throw new Error(`vitest failed without a failed test: ${text}`);
  return { seconds, tests: results.numPassedTests, failures };
}

const isNative = ({ file }) => file.startsWith('cuda/');
let isLibraryClean = false;
async function build() {
  const { rc, text, seconds } = await run('nice', ['npm', 'run', '-s', 'build:cpu'], 60);
  if (rc !== 0) throw new Error(`the CPU library was not built: ${text}`);
  return seconds;
}

/** Files that hold a fault now. */
const planted = new Set();
function restore() {
  for (const file of planted) {
    const { status, stderr } = git('checkout', '--', file);
    if (status !== 0) throw new Error(`${file} was not restored: ${stderr}`);
    planted.delete(file);
  }
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    if (running) process.kill(-running.pid, 'SIGKILL');
    restore();
    if (!isLibraryClean) say('the CPU library may hold a fault: rebuild it');
    process.exit(1);
  });

async function withFault(fault, work) {
  const path = join(repo, fault.file);
  if (!planted.has(fault.file) && git('status', '--porcelain', '--', fault.file).stdout !== '') throw new Error(`${fault.file} is not as committed`);
  const text = readFileSync(path, 'utf8');
  const count = text.split(fault.find).length - 1;
  if (count !== 1) throw new Error(`${fault.file} has ${JSON.stringify(fault.find)} ${count} times`);
  planted.add(fault.file);
  try {
    writeFileSync(path, text.replace(fault.find, () => fault.replace));
    if (isNative(fault)) {
      isLibraryClean = false;
      await build();
    }
    return await work();
  } finally {
    restore();
  }
}

async function cleanLibrary() {
  if (isLibraryClean) return;
  say(`library without fault: built in ${await build()} s`);
  isLibraryClean = true;
}

const describe = ({ file, test }) => `${file}: ${test}`;

/** Arguments that leave out tests, by name, or whole files. */
function without(failures) {
  const whole = failures.filter(({ test }) => test === '(the file)').map(({ file }) => file);
  const names = failures.filter(({ test }) => test !== '(the file)').map(({ test }) => test.replaceAll(/[^\w ]/g, '.'));
  return [
    ...whole.flatMap((file) => ['--exclude', file]),
    ...(names.length > 0 ? ['-t', `^(?!\\s*(?:${names.join('|')})$)`] : []),
  ];
}

// A fault whose text is not there any more, after a refactoring: say so, and go on with the others.
const chosen = all.filter(({ id }) => (wantedIds.length > 0 ? wantedIds.includes(id) : options.again || !out.faults[id]));
const lost = chosen.filter(({ file, find }) => {
  const path = join(repo, file);
  return !existsSync(path) || readFileSync(path, 'utf8').split(find).length !== 2;
});
for (const { id, file } of lost) {
  out.faults[id] = { result: 'not planted', reason: `${file} does not have the text to replace exactly once` };
  say(`${id}: not planted`);
}
const faults = chosen.filter((fault) => !lost.includes(fault));
save();

// Faults of the library last, so that it is built twice only where it must be.
faults.sort((a, b) => Number(isNative(a)) - Number(isNative(b)));
if (faults.length > 0) await cleanLibrary();

/** Whether files or folders contain all others. */
const covers = (known, files) => files.every((file) => known.some((each) => file === each || file.startsWith(`${each}/`)));

const areas = new Map();
for (const { area, tests } of faults) areas.set(area, new Set([...(areas.get(area) ?? []), ...tests]));
for (const [area, tests] of areas) {
  await checkClean(area, [...tests].sort());
  for (const fault of faults.filter((each) => each.area === area)) await tryArea(fault);
}

async function checkClean(area, files) {
  const known = out.baseline[area];
  if ((known?.failures.length === 0 || options['despite-failures']) && known && covers(known.files, files)) return;
  const missing = files.filter((file) => !existsSync(join(repo, file)));
  if (missing.length > 0) throw new Error(`${repo} has no ${missing.join(', ')}: change the tests of area ${area}`);
  const { seconds, tests: passed, failures } = await vitest(files, mostMinutes.area);
  out.baseline[area] = { files, seconds, passed, failures };
  save();
  say(`area ${area} without fault: ${passed} tests passed in ${seconds} s, ${failures.length} failed`);
  if (failures.length > 0 && !options['despite-failures'])
    throw new Error(`area ${area} fails without a fault: ${failures.map(describe).join('; ')}`);
}

async function tryArea(fault) {
  const found = await withFault(fault, () => vitest([...fault.tests, ...without(out.baseline[fault.area].failures), '--bail', '1'], mostMinutes.area));
  const { seconds, failures } = found;
  out.faults[fault.id] =
    failures.length > 0
      ? { result: 'caught', by: describe(failures[0]), where: 'area', seconds, message: failures[0].message }
      : { result: 'survived its area', seconds };
  save();
  say(`${fault.id}: ${out.faults[fault.id].result} ${out.faults[fault.id].by ?? ''} (${seconds} s)`);
}

const survivors = options['area-only'] ? [] : all.filter((fault) => out.faults[fault.id]?.result === 'survived its area' && (wantedIds.length === 0 || wantedIds.includes(fault.id)));
survivors.sort((a, b) => Number(isNative(a)) - Number(isNative(b)));
if (survivors.length > 0) {
  // All survivors are planted together first: most often no test fails, and each is then known to survive. Else each is planted alone
  // for the files that failed.
  if (!survivors.some(isNative)) await cleanLibrary();
  const plant = (rest, work) => (rest.length === 0 ? work() : withFault(rest[0], () => plant(rest.slice(1), work)));
  const together = await plant(survivors, () => vitest(fastSuite, mostMinutes.suite));
  const files = [...new Set(together.failures.map(({ file }) => file))];
  say(`fast suite with ${survivors.length} faults: ${together.tests} tests passed in ${together.seconds} s; failures in ${files.join(', ') || 'no file'}`);
  out.suite = { faults: survivors.map(({ id }) => id), ...together };
  save();
  let clean;
  if (files.length > 0) {
    await cleanLibrary();
    clean = await vitest(files, mostMinutes.suite);
    out.baseline.suite = { files, ...clean };
    say(`these files without fault: ${clean.tests} tests passed, ${clean.failures.length} failed: ${clean.failures.map(describe).join('; ')}`);
  }
  const isClean = ({ file, test }) => clean.failures.every((each) => each.file !== file || each.test !== test);
  const suspicious = clean ? [...new Set(together.failures.filter(isClean).map(({ file }) => file))] : [];
  for (const fault of survivors) {
    const { failures, seconds } =
      suspicious.length === 0
        ? { failures: [], seconds: together.seconds }
        : await withFault(fault, () => vitest([...suspicious, ...without(clean.failures), '--bail', '1'], mostMinutes.suite));
    out.faults[fault.id] =
      failures.length > 0
        ? { result: 'caught', by: describe(failures[0]), where: 'fast suite', seconds, message: failures[0].message }
        : { result: 'survived', seconds };
    save();
    say(`${fault.id}: ${out.faults[fault.id].result} ${out.faults[fault.id].by ?? ''} (${seconds} s)`);
  }
}
if ([...faults, ...survivors].some(isNative)) await cleanLibrary();
say('done');
