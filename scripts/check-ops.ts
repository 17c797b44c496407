// Runs every op of the CPU library at every size of the op suite, and prints each op's largest error as a fraction of its bound. Needs
// no test runner, so scripts/test-arm64 can run it on an emulated CPU, where vitest cannot run an op suite.

import { Device } from '../src/native/device.ts';
import { opCases } from '../src/ops/cases/index.ts';
import { callingsOf } from '../src/ops/cases/op-case.ts';
import { runCase } from '../src/ops/cases/run-case.ts';

using device = Device.open({ kind: 'cpu' });
const { codePath, threads } = device.description;
console.log(`${process.platform} ${process.arch}, code path ${codePath}, ${threads} threads`);
let failures = 0;
let total = 0;
for (const cases of Object.values(opCases).flat()) {
  let worst = 0;
  let count = 0;
  for (const [index, sizes] of cases.sizes.entries()) {
    // Call an op in every way (such as without a bias) at its first sizes, only plainly at other sizes.
    for (const calling of index === 0 ? callingsOf(cases) : callingsOf(cases).slice(0, 1)) {
      for (const { name, error, bound, isWithin } of await runCase(device, cases, sizes, calling)) {
        count++;
        worst = Math.max(worst, bound > 0 ? error / bound : 0);
        if (isWithin) continue;
        failures++;
        console.log(`${name} with ${JSON.stringify(sizes)}: error ${error} is over ${bound}`);
      }
    }
  }
  total += count;
  const results = `${String(count).padStart(3)} results`;
  console.log(`${cases.variant.name.padEnd(36)} ${results}, at most ${worst.toFixed(2)} of the bound`);
}
const wrong = `${failures} of ${total} results are wrong`;
console.log(failures > 0 ? wrong : `all ${total} results are within their bounds`);
process.exitCode = failures > 0 ? 1 : 0;
