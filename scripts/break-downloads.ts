// Interrupts downloads at random bytes, with delayed writes: test/datasets/break-downloads.ts.
//
//   node --import tsx scripts/break-downloads.ts [--breaks 200] [--seed 1]
import { breakDownloads } from '../test/datasets/break-downloads.ts';
import { readFlags } from './flags.ts';

const { breaks, downloads, bytes, bytesTwice, hash, expected } = await breakDownloads(
  readFlags({ breaks: 200, seed: 1 }),
);
console.log(`${breaks} breaks in ${downloads} downloads of ${bytes} bytes; ${bytesTwice} bytes fetched twice`);
console.log(`sha256 ${hash}: ${hash === expected ? "the server's" : `not the server's ${expected}`}`);
if (hash !== expected) process.exitCode = 1;
