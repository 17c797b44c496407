// Interrupts downloads at random bytes, with delayed writes, some hundred times: test/datasets/break-downloads.ts.
//
//   node --import tsx scripts/break-downloads.ts [--breaks 200] [--seed 1]
import { parseArgs } from 'node:util';
import { breakDownloads } from '../test/datasets/break-downloads.ts';

const { values } = parseArgs({
  options: { breaks: { type: 'string', default: '200' }, seed: { type: 'string', default: '1' } },
});
const { breaks, downloads, bytes, bytesTwice, hash, expected } = await breakDownloads({
  breaks: Number(values.breaks),
  seed: Number(values.seed),
});
console.log(`${breaks} breaks in ${downloads} downloads of ${bytes} bytes; ${bytesTwice} bytes fetched twice`);
console.log(`sha256 ${hash}: ${hash === expected ? "the server's" : `not the server's ${expected}`}`);
if (hash !== expected) process.exitCode = 1;
