// The exercises of the CUDA course (kernels/): kernels with gaps that a learner fills in a copy of the folder, and the learner's score.
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expected, explained, gpt2Error } from '../base/errors.ts';
import { makeFolder } from '../base/files/make-folder.ts';
import { packageRoot } from '../base/package-root.ts';
import { selectDevice } from '../native/select-device.ts';
import { KernelProcess } from './kernel-process.ts';
import { jobsOf, type LabOptions, listed, testJobs } from './test-kernels.ts';

/** Folder of the exercises; their names sort in the order of the course. */
export const exercises = join(packageRoot, 'kernels/exercises');
const scoreFile = 'score.json';

/** By exercise: the time at which it was solved, and the hash of the solution that passed the test. */
type Score = Record<string, { readonly solved: string; readonly hash: string }>;

export interface CheckedExercise {
  readonly name: string;
  /** Time at which the exercise was solved, in ISO 8601; undefined if it is unsolved. */
  readonly solved: string | undefined;
  /** Whether the learner has not changed the exercise yet. */
  readonly isUntouched: boolean;
  /** Output of the test; empty if the exercise is solved. */
  readonly lines: readonly string[];
  /** Path of the exercise's .cu file. */
  readonly source: string;
}

/** Copies the exercises to `folder`. @throws Gpt2Error if `folder` exists, or cannot be made */
export function startCourse(folder: string): void {
  explained(`cannot start the course in ${folder}`, 'name another one', () => {
    if (existsSync(folder)) throw new Error('it exists, and nothing is overwritten');
    makeFolder(dirname(folder));
    cpSync(exercises, folder, { recursive: true });
  });
}

/**
 * Tests the exercises of a folder in the emulator, one after the other. A solved exercise that has not changed is not tested again.
 * @param seconds time limit of each kernel
 * @throws Gpt2Error if the folder has no exercises
 */
export async function* checkCourse(folder: string, seconds: number): AsyncGenerator<CheckedExercise> {
  const isExercise = (name: string) => existsSync(join(exercises, name)) && existsSync(join(folder, name, 'card.ts'));
  const names = existsSync(folder) ? readdirSync(folder).filter(isExercise) : [];
  if (names.length === 0) {
    throw gpt2Error`there are no exercises in ${folder}: copy them there with npm run gpt2 -- course start ${folder}`;
  }
  const path = join(folder, scoreFile);
  const score = readScore(path);
  using child = new KernelProcess({ seconds });
  for (const name of names.sort()) {
    const exercise = join(folder, name);
    const lines: string[] = [];
    let [source, hash, isUntouched] = [exercise, '', false];
    try {
      const options: LabOptions = { folder: exercise, device: selectDevice('cpu'), seconds };
      const [card] = await listed(child, options);
      source = join(exercise, card!.source);
      hash = card!.hash;
      isUntouched = (await listed(child, { ...options, folder: join(exercises, name) }))[0]!.hash === hash;
      if (score[name]?.hash !== hash) {
        const jobs = await jobsOf(child, options);
        const onLine = (line: string) => void lines.push(line);
        const wrong = await testJobs(child, jobs, options, { isBrief: true, onLine });
        const solved = score[name]?.solved ?? new Date().toISOString();
        if (wrong.length > 0) delete score[name];
        else score[name] = { solved, hash };
        writeFileSync(path, `${JSON.stringify(score, undefined, 2)}\n`);
      }
    } catch (error) {
      lines.push(expected(error).message);
    }
    const solved = score[name]?.hash === hash ? score[name].solved : undefined;
    yield { name, solved, isUntouched, lines: solved === undefined ? lines : [], source };
  }
}

function readScore(path: string): Score {
  return explained(`the score ${path} cannot be read`, 'delete it: it is made again', () =>
    existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Score) : {},
  );
}
