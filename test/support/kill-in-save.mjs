// Loaded into a rank by `--import`: ends it with SIGKILL at the KILL_AT-th bucket that it gathers for a checkpoint or a hash, KILL_AFTER
// milliseconds after the gather was enqueued, or before it if that is negative. A rank that lives says how many it gathered.
// HOOKED is the path of the module that gathers.
import { isMainThread } from 'node:worker_threads';

const [at, after] = [Number(process.env.KILL_AT), Number(process.env.KILL_AFTER)];
let gathered = 0;

// Threads get the same options, but no loader of TypeScript.
if (isMainThread) {
  const { Sharding } = await import(process.env.HOOKED);
  const { gather } = Sharding.prototype;
  Sharding.prototype.gather = function (parts, bucket) {
    const isLast = ++gathered === at;
    if (isLast && after < 0) process.kill(process.pid, 'SIGKILL');
    const whole = gather.call(this, parts, bucket);
    if (isLast) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, after);
      process.kill(process.pid, 'SIGKILL');
    }
    return whole;
  };
  process.on('exit', () => console.error(`gathered ${gathered} buckets`));
}
