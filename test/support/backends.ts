// Runs a suite once per native library. One that is not there is a visible skip with its reason.
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { type LibraryKind, libraryPath } from '../../src/native/library.ts';

const kinds: readonly LibraryKind[] = ['cpu', 'cuda'];

/** A suite for each library; `device()` gives the open device inside tests. */
export function describeBackends(name: string, suite: (device: () => Device, kind: LibraryKind) => void): void {
  for (const kind of kinds) {
    const path = libraryPath(kind);
    const file = path.split('/').at(-1)!;
    const reason = !existsSync(path)
      ? `there is no ${file}`
      : file.includes(kind)
        ? undefined
        : `GPT2_LIBRARY is ${file}`;
    if (reason) {
      describe(`${name} on ${kind}`, () => it.skip(reason, () => {}));
      continue;
    }
    describe(`${name} on ${kind}`, () => {
      let device: Device | undefined;
      beforeAll(() => {
        device = Device.open({ kind });
      });
      afterAll(() => device?.close());
      suite(() => device!, kind);
    });
  }
}

/** A suite for the CUDA library alone, on a machine with a GPU. */
export function describeCuda(name: string, suite: () => void): void {
  const reason = cudaProblem();
  if (reason === undefined) describe(name, suite);
  else describe(name, () => it.skip(reason, () => {}));
}

/** Why the CUDA library cannot be tested here, or undefined if it can. GPT2_REQUIRE_CUDA=1 makes it an error. */
function cudaProblem(): string | undefined {
  try {
    Device.open({ kind: 'cuda' }).close();
    return undefined;
  } catch (error) {
    if (process.env.GPT2_REQUIRE_CUDA === '1' || !(error instanceof Error)) throw error;
    return error.message.split(';')[0];
  }
}
