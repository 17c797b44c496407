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
