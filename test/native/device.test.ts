// Loading, opening, owning and closing: what fails says what to do, and nothing works after close.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { attempt, Gpt2Error, NativeError, ShapeError } from '../../src/base/errors.ts';
import { abiVersion } from '../../src/native/bindings.generated.ts';
import { Device } from '../../src/native/device.ts';
import { allocateTensor, Tensor } from '../../src/native/tensor.ts';
import { geluForward } from '../../src/ops/ops.generated.ts';
import { describeBackends, describeCuda } from '../support/backends.ts';
import { Workplace } from '../support/cli.ts';
import { TensorBench } from '../support/tensors.ts';

describe('loading', () => {
  // Building does not fix a path that the environment names.
  const mend = 'GPT2_LIBRARY names it: correct or unset it';

  const compiled = (version: number) => (path: string) => {
    writeFileSync(`${path}.c`, `int gpt2_abi_version(void) { return ${version}; }`);
    execFileSync('cc', ['-shared', '-fPIC', '-o', path, `${path}.c`]);
  };
  it.each<[what: string, make: (path: string) => void, message: string]>([
    ['is not there', () => {}, '^there is no .*library\\.so'],
    ['is none', (path) => writeFileSync(path, 'no library'), 'library\\.so cannot be loaded: .*'],
    ['has another ABI version', compiled(99), 'ABI version 99, this program needs \\d+'],
    ['lacks functions', compiled(abiVersion), 'library\\.so lacks functions of gpt2\\.ts: .*gpt2_\\w+.*'],
  ])('a library that %s is refused, with who named it', (_, make, message) => {
    using place = new Workplace();
    make(place.path('library.so'));
    vi.stubEnv('GPT2_LIBRARY', place.path('library.so'));
    const open = () => Device.open({ kind: 'cpu' });
    expect(open).toThrow(Gpt2Error);
    expect(open).toThrow(new RegExp(`${message}; ${mend}`));
  });
});

describeBackends('device', (_, kind) => {
  it('describes what was opened', () => {
    using device = Device.open({ kind, threads: 2 });
    expect(device.description.library).toBe(kind);
    expect(device.description.dtypes).toContain('fp32');
  });

  it.runIf(kind === 'cpu')('has as many threads as GPT2_THREADS says, unless it is told a number', () => {
    const threadsOf = (variable: string, threads?: number) => {
      vi.stubEnv('GPT2_THREADS', variable);
      using device = Device.open({ kind, threads });
      return device.description.threads;
    };
    expect([threadsOf('3'), threadsOf('3', 0), threadsOf('3', 2)]).toEqual([3, 3, 2]);
    expect(() => threadsOf('0')).toThrow('GPT2_THREADS must be a whole number from 1 to 1024, not "0"');
  });

  it.runIf(kind === 'cpu')('a dtype it lacks is refused with those it has', () => {
    expect(() => Device.open({ kind, dtype: 'tf32' })).toThrow(/no tf32, only fp32, bf16/);
  });

  it('an unknown code path is refused', () => {
    vi.stubEnv('GPT2_KERNELS', 'abacus');
    expect(() => Device.open({ kind })).toThrow(/to be .*portable.*, got abacus; correct or unset GPT2_KERNELS/);
  });

  it('observes every call, also after an observer that failed', async () => {
    using device = Device.open({ kind });
    const seen: string[] = [];
    const record = (name: string) => {
      seen.push(name);
      if (seen.length === 1) throw new Error('of the observer');
    };
    await device.observed(record, async () => {
      expect(() => device.memory()).toThrow('of the observer');
      device.memory();
    });
    expect(seen).toEqual(['memoryInfo', 'memoryInfo']);
  });

  it.runIf(kind === 'cpu')('a program enqueues once, and calls the library at every run', async () => {
    using device = Device.open({ kind });
    const tensor = allocateTensor(device, 'x', 'fp32', [2]);
    const seen: string[] = [];
    const note = (name: string) => seen.push(name);
    let enqueued = 0;
    const program = device.program(() => {
      enqueued++;
      device.call('fillZero', { destination: tensor.pointer, bytes: 4 });
      if (enqueued === 1) throw new Error('of the first run');
    });
    expect(() => program.run()).toThrow('of the first run');
    for (const expected of [2, 2, 3]) {
      if (expected === 3) device.dropGraphs();
      tensor.write(Float32Array.of(1, 2));
      await device.observed(note, async () => program.run());
      expect([...tensor.read()]).toEqual([0, 2]);
      expect(enqueued).toBe(expected);
    }
    expect(seen).toEqual(['fillZero', 'fillZero', 'fillZero']);
  });

  it('copies in and out, and zeroes what it allocates', () => {
    using device = Device.open({ kind });
    const tensor = allocateTensor(device, 'x', 'fp32', [3, 5]);
    expect(tensor.read()).toEqual(new Float32Array(15));
    tensor.write(Float32Array.from([1, 2, 3]), 4);
    expect([...tensor.read().slice(3, 8)]).toEqual([0, 1, 2, 3, 0]);
    expect(() => tensor.write(new Float32Array(4), 12)).toThrow('x has 15 elements, not 4 from 12');
    expect(() => tensor.write(new Int32Array(1))).toThrow('x holds fp32, not Int32Array');
    expect(() => new Tensor(tensor.buffer, 'big', 'fp32', [16])).toThrow('does not fit');
  });

  it('a view ends where its tensor does, though the memory goes on', () => {
    using device = Device.open({ kind });
    const first = allocateTensor(device, 'arena', 'fp32', [8]).view([4], 0, 'x');
    expect(first.view([2, 2]).count).toBe(4);
    expect(() => first.view([5])).toThrow('x has 4 elements, not 5 ([5]) from 0');
    expect(() => first.view([2], 3)).toThrow('x has 4 elements, not 2 ([2]) from 3');
  });

  it('nothing is before a tensor, between two elements, or of half a size', () => {
    using device = Device.open({ kind });
    const arena = allocateTensor(device, 'arena', 'fp32', [8]);
    const tensor = arena.view([4], 4, 'x');
    for (const start of [-1, -4, 0.25, Number.NaN]) {
      expect(() => tensor.write(new Float32Array(1), start)).toThrow(`x has 4 elements, not 1 from ${start}`);
      expect(() => tensor.readInto(new Float32Array(1), start)).toThrow(`x has 4 elements, not 1 from ${start}`);
      expect(() => tensor.view([1], start)).toThrow(`x has 4 elements, not 1 ([1]) from ${start}`);
    }
    for (const shape of [[-2, -2], [0.5, 2], [Number.NaN]]) expect(() => tensor.view(shape)).toThrow(ShapeError);
    expect(() => new Tensor(arena.buffer, 'y', 'fp32', [1], -4)).toThrow('y cannot be [1] at byte -4');
    expect(arena.read()).toEqual(new Float32Array(8));
  });

  it('waiting lets the event loop turn, even for what was reached long ago', async () => {
    using device = Device.open({ kind });
    const event = device.createEvent();
    device.record(event);
    await device.finished();
    let turns = 0;
    setImmediate(() => turns++);
    await device.reached(event);
    expect(turns).toBe(1);
  });

  it('use after close throws', () => {
    const device = Device.open({ kind });
    const tensor = allocateTensor(device, 'x', 'fp32', [4]);
    tensor.buffer.close();
    expect(() => tensor.read()).toThrow('"x" is closed');
    const other = allocateTensor(device, 'y', 'fp32', [4]);
    device.close();
    device.close();
    expect(() => other.read()).toThrow('closed');
    expect(() => device.memory()).toThrow('the device is closed');
  });

  it('a status becomes an error with function and detail', () => {
    using device = Device.open({ kind });
    const bytes = { bytes: new BigInt64Array(1) };
    const error = attempt(() => device.call('matmulScratch', { ...bytes, N: -1, C: 2, O: 3, gradients: 1 }));
    expect(error).toBeInstanceOf(NativeError);
    expect(error).toMatchObject({ function: 'gpt2_matmul_scratch', status: 'GPT2_INVALID_ARGUMENT' });
    expect((error as Error).message).toContain('-1');
  });

  it('NULL, a misaligned workspace and too many rows are refused, not followed', () => {
    using device = Device.open({ kind });
    const event = device.createEvent();
    const [reached, milliseconds] = [new Int32Array(1), new Float32Array(1)];
    const x = 64n;
    const tokens = { out: x, tokens: x, texts: null, positions: null, wte: x, wpe: x, C: 1, V: 2 };
    expect(() => device.call('eventRecord', { event: 0n })).toThrow('expected event, got NULL');
    expect(() => device.call('eventQuery', { reached, event: 0n })).toThrow('expected event, got NULL');
    expect(() => device.call('eventElapsed', { milliseconds, from: event, to: 0n })).toThrow('expected to, got NULL');
    expect(() => device.call('castWeights', { weight: x, master: x, count: 0 })).toThrow('count of at least 1');
    expect(() => device.call('setWorkspace', { workspace: 100n, bytes: 8 })).toThrow('a workspace aligned to 64 bytes');
    expect(() => device.call('embeddingForward', { ...tokens, B: 65_536, T: 32_768, S: 32_768 })).toThrow(
      'B * T below 2^31',
    );
    const none = { values: null, norm: null, mean: null, bias: null };
    const norm = { ...none, out: x, scale: x, rstd: x, in: x, weight: x, N: 1, C: 16, eps: 0 };
    expect(() => device.call('normForward', norm)).toThrow('both scale and values, or neither');
  });

  it('a number that C would bend is refused before the call', () => {
    using device = Device.open({ kind });
    const bytes = new BigInt64Array(1);
    expect(() => device.call('matmulScratch', { bytes, N: 2.5, C: 2, O: 3, gradients: 1 })).toThrow('N = 2.5 is not a');
    expect(() => device.call('matmulScratch', { bytes, N: 2 ** 40, C: 2, O: 3, gradients: 1 })).toThrow(RangeError);
    for (const bytes of [Number.NaN, 2 ** 60]) {
      const refusal = `the size of the device memory "x" in bytes takes a whole number`;
      expect(() => device.allocate(bytes, 'x')).toThrow(refusal);
    }
  });

  it('two devices live side by side, and memory returns to its start', () => {
    using first = Device.open({ kind });
    using second = Device.open({ kind });
    const tensor = allocateTensor(first, 'a', 'fp32', [1000]);
    allocateTensor(second, 'b', 'fp32', [10]);
    expect([...first.allocated]).toEqual([['a', 4000]]);
    tensor.buffer.close();
    expect(first.allocated.size).toBe(0);
    expect(second.allocated.get('b')).toBe(40);
  });

  it('an op takes the tensors of one device', () => {
    using first = Device.open({ kind });
    using second = Device.open({ kind });
    const [out, input] = [first, second].map((device) => allocateTensor(device, 'x', 'fp32', [4]));
    expect(() => geluForward(first, { out: out!, in: input! })).toThrow('in is on another device than the op');
  });
});

describeCuda('memory that is not aligned', () => {
  it('goes to kernels that can read it', () => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16' });
    const [N, C, V] = [64, 64, 128];
    using bench = new TensorBench(device);
    const input = bench.tensor('in', [(N + 1) * C], new Float32Array((N + 1) * C));
    const sizes = { N, C, V, Vp: V, dloss: 0, softcap: 0, accumulate: 0 };
    const given = { weight: new Float32Array(V * C), din: null, dweight: null, dbias: null, bias: null };
    for (const start of [4, 8]) {
      const { losses } = bench.call('classifier', sizes, { ...given, in: input.view([N, C], start) });
      for (const loss of losses.read()) expect(Math.abs(loss - Math.log(V))).toBeLessThan(1e-4);
    }
  });
});
