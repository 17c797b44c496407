// Connects ranks in one process: values of all, refused connections, and failures, with which every rank ends in the same
// words.
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server, Socket } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Gpt2Error, NativeError } from '../../src/base/errors.ts';
import { Channel, introduce } from '../../src/ranks/channel.ts';
import type { Place } from '../../src/ranks/place.ts';
import { RankError, Ranks } from '../../src/ranks/ranks.ts';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { freePort } from '../support/ranks.ts';

const here = hostname();
let port: number;
const open: Ranks[] = [];
const notices: string[] = [];

beforeEach(async () => {
  port = await freePort();
});
afterEach(() => {
  for (const ranks of open.splice(0)) ranks.close();
  notices.length = 0;
});

const place = (rank: number, ranks: number, other: Partial<Place> = {}): Place => ({
  ...{ rank, ranks, ranksFrom: 'WORLD_SIZE', localRank: rank, localRanks: ranks, gpu: rank },
  ...{ host: '127.0.0.1', port, token: 'token' },
  ...{ joinSeconds: 60, silenceSeconds: 2, ...other },
});

async function join(rank: number, ranks: number, other: Partial<Place> = {}): Promise<Ranks> {
  const joined = await Ranks.join(place(rank, ranks, other), (text) => notices.push(text));
  open.push(joined);
  return joined;
}

const joinAll = (count: number, other: Partial<Place> = {}) =>
  Promise.all(Array.from({ length: count }, (_, rank) => join(rank, count, other)));

const verdictOf = (ranks: Ranks): Promise<string> =>
  ranks.failed.then(
    () => 'none',
    (error: Error) => error.message,
  );

describe('meeting', () => {
  it('in any order, every rank gets every value by rank', async () => {
    const late = setTimeout(300).then(() => join(0, 3));
    const [one, two, root] = await Promise.all([join(1, 3), join(2, 3), late]);
    const all = [root, one, two];
    expect(root.hosts).toEqual([here, here, here]);
    for (let round = 0; round < 3; round++) {
      const values = await Promise.all(all.map((ranks) => ranks.allGather({ rank: ranks.rank, round })));
      const wanted = [0, 1, 2].map((rank) => ({ rank, round }));
      expect(values).toEqual([wanted, wanted, wanted]);
    }
    expect(await Promise.all(all.map((ranks) => ranks.fromRoot(ranks.rank + 5)))).toEqual([5, 5, 5]);
    // A reaction of each wait would stay until the run ends.
    const reactions = vi.spyOn(root.failed, 'then');
    await Promise.all(all.map((ranks) => ranks.barrier()));
    expect(reactions).not.toHaveBeenCalled();
    await Promise.all(all.map((ranks) => ranks.leave()));
    one.close();
    await setTimeout(50);
    await expect(Promise.race([root.failed, setTimeout(50, 'well')])).resolves.toBe('well');
  });

  it('what rank 0 does first is done before the others begin', async () => {
    const said: string[] = [];
    const work = async (rank: number) => {
      said.push(`${rank} begins`);
      await setTimeout(rank === 0 ? 300 : 0);
      said.push(`${rank} ends`);
    };
    await Promise.all((await joinAll(2)).map((ranks) => ranks.afterRoot(() => work(ranks.rank))));
    expect(said).toEqual(['0 begins', '0 ends', '1 begins', '1 ends']);
  });

  it('a busy port is named', async () => {
    const server: Server = createServer().listen(port, '127.0.0.1');
    await once(server, 'listening');
    await expect(join(0, 2)).rejects.toThrow(
      `rank 0 on ${here}: cannot listen on port ${port}: it is in use; set MASTER_PORT to another, for every rank`,
    );
    server.close();
  });

  it('a rank with another token is refused, the right one is waited for', async () => {
    const root = join(0, 2);
    await expect(join(1, 2, { token: 'other' })).rejects.toThrow(
      `rank 1 on ${here}: rank 0 at 127.0.0.1:${port} refused this rank: its job token differs`,
    );
    expect(notices).toEqual(['refused a connection from 127.0.0.1: its job token differs']);
    const one = await join(1, 2);
    expect((await root).hosts).toEqual(one.hosts);
  });

  it('so are one too many, one of another number of ranks, and what is no rank at all', async () => {
    const root = join(0, 3);
    const one = join(1, 3);
    await setTimeout(500);
    await expect(join(1, 3)).rejects.toThrow('rank 1 has already joined');
    await expect(join(3, 3)).rejects.toThrow('there is no rank 3 of 3');
    await expect(join(1, 2)).rejects.toThrow('it is one of 2 ranks, rank 0 one of 3');
    const stranger = connect(port, '127.0.0.1');
    stranger.on('error', () => {}).resume();
    stranger.write(`GET / HTTP/1.1\n${'x'.repeat(5000)}\n`);
    await once(stranger, 'close');
    await Promise.all([root, one, join(2, 3)]);
  });

  it('a rank joins nobody who does not know the token', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.write(`${JSON.stringify({ program: 'gpt2.ts', challenge: 'x' })}\n`);
      socket.once('data', () => socket.write(`${JSON.stringify({ welcome: '0'.repeat(64) })}\n`));
    }).listen(port, '127.0.0.1');
    await expect(join(1, 2, { joinSeconds: 1 })).rejects.toThrow(
      'the program that answers does not know the job token',
    );
    server.close();
  });

  it('waiting ends when it is asked to', async () => {
    const controller = new AbortController();
    // Not each other.
    const waiting = [place(0, 2), place(1, 2, { port: await freePort() })].map((alone) =>
      expect(Ranks.join(alone, () => {}, controller.signal)).rejects.toThrow('stopped while waiting'),
    );
    await setTimeout(100);
    // A rank that has begun to join rank 0.
    const joining = connect(port, '127.0.0.1');
    await once(joining, 'data');
    controller.abort(130);
    await Promise.all([...waiting, once(joining, 'end', { signal: AbortSignal.timeout(2000) })]);
    joining.destroy();
  });

  it('a long wait is reported, with the variable that made the rank wait', async () => {
    const quiet = place(1, 3, { port: await freePort(), ranksFrom: 'SLURM_NTASKS', joinSeconds: 6 });
    const failed = expect(Ranks.join(quiet, (text) => notices.push(text))).rejects.toThrow('rank 0 was not reached');
    const [root, one] = [join(0, 3), join(1, 3)];
    await setTimeout(5500);
    expect(notices.sort()).toEqual([
      `rank 0 waits for rank 2 on port ${port}, because WORLD_SIZE is 3: start every rank, or unset WORLD_SIZE`,
      `rank 1 waits for rank 0 at 127.0.0.1 on port ${quiet.port}, because SLURM_NTASKS is 3: start every rank, or unset SLURM_NTASKS`,
    ]);
    await Promise.all([root, one, join(2, 3), failed]);
  });

  it('who does not come is named', async () => {
    await expect(join(0, 3, { joinSeconds: 1 })).rejects.toThrow(
      `rank 0 on ${here}: ranks 1, 2 have not connected to port ${port} within 1 s`,
    );
    await expect(join(1, 3, { joinSeconds: 1 })).rejects.toThrow(
      `rank 0 was not reached at 127.0.0.1:${port} within 1 s`,
    );
  });
});

describe('failing', () => {
  it('what goes wrong in one rank is what all end with', async () => {
    const all = await joinAll(3);
    const waiting = expect(all[0]!.allGather(1)).rejects.toThrow('the disk is full');
    const own = await all[2]!.fail(new Gpt2Error('the disk is full'));
    const wanted = `rank 2 on ${here}: the disk is full`;
    expect((own as Error).message).toBe(wanted);
    expect(await Promise.all(all.map(verdictOf))).toEqual([wanted, wanted, wanted]);
    await waiting;
  });

  it('a rank that fails after much output is reported with the end of it', () => {
    const program = `
      import { launchRanks } from '${moduleOf('ranks/launch.ts')}';
      if (!process.env.RANK) await launchRanks(2).catch(({ message }) => console.log(message));
      if (process.env.RANK === '1') process.stderr.write('-'.repeat(9000) + 'the reason', () => process.exit(3));`;
    const args = [...moduleLoader, '--input-type=module', '--eval', program];
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stdout, stderr).toMatch(/^rank 1 ended with 3: -+the reason\n$/);
  });

  it.each<[string, count: number, act: (...all: Ranks[]) => unknown, told: readonly number[], wanted: string]>([
    [
      'a rank whose process ends is named by all others',
      3,
      (_, __, two) => two!.close(),
      [0, 1],
      `rank 2 on ${here} is gone: its connection closed`,
    ],
    ['so is rank 0', 2, (root) => root!.close(), [1], `rank 0 on ${here} is gone: its connection closed`],
    [
      'a rank is not blamed because a message has the word',
      2,
      (root) => root!.fail(new NativeError('gpt2_muon', 'GPT2_DEVICE_ERROR', 'a matrix of rank 1 has no inverse')),
      [0],
      `rank 0 on ${here}: gpt2_muon: a matrix of rank 1 has no inverse`,
    ],
    [
      'what a look every second finds ends the job',
      2,
      (_, one) =>
        one!.watch(() => {
          throw new Gpt2Error('the network is down');
        }),
      [0, 1],
      `rank 1 on ${here}: the network is down`,
    ],
    [
      'a rank that stays behind is named with the steps',
      3,
      (...all) => {
        for (const ranks of all) ranks.liveness.begin(0);
        for (const ranks of all.slice(0, 2)) ranks.liveness.begin(1);
      },
      [0, 1, 2],
      `rank 2 on ${here} is in step 0, and was waited for in step 1 for 2 s`,
    ],
  ])('%s', async (_, count, act, told, wanted) => {
    const all = await joinAll(count);
    act(...all);
    expect(await Promise.all(told.map((rank) => verdictOf(all[rank]!)))).toEqual(told.map(() => wanted));
  });

  it.each(['ECONNRESET', 'EPIPE'])('a connection that fails with %s is closed', async (code) => {
    const socket = new Socket();
    const reason = new Promise((resolve) => new Channel(socket).listen(() => {}, resolve));
    socket.destroy(Object.assign(new Error(`write ${code}`), { code }));
    expect(await reason).toBe('its connection closed');
  });

  it('so is one that went while others were waited for', async () => {
    const root = join(0, 4);
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    await introduce(new Channel(socket), { token: 'token', rank: 1, ranks: 4 });
    const two = join(2, 4);
    socket.destroy();
    await setTimeout(500);
    const ends = await Promise.allSettled(
      [root, two, join(3, 4)].map((joined) =>
        Promise.race([joined, setTimeout(30_000, 'waits for ever', { ref: false })]),
      ),
    );
    const wanted = { status: 'rejected', reason: new RankError('rank 1 is gone: its connection closed') };
    expect(ends).toEqual([wanted, wanted, wanted]);
  });

  it('a collective that failed for want of a rank is that rank, unless it says why itself', async () => {
    const effect = (rank: number) =>
      new NativeError('gpt2_all_reduce', 'GPT2_RANK_ERROR', `rank ${rank} is gone: its connection is closed`, rank);
    const [root, one] = (await joinAll(3)) as [Ranks, Ranks, Ranks];
    root.fail(effect(1));
    one.fail(new Gpt2Error('no more tokens'));
    expect(await verdictOf(root)).toBe(`rank 1 on ${here}: no more tokens`);
    for (const ranks of open.splice(0)) ranks.close();
    port = await freePort();
    const [other] = (await joinAll(3)) as [Ranks, Ranks, Ranks];
    other.fail(effect(2));
    expect(await verdictOf(other)).toBe(`rank 2 on ${here} is gone: its connection is closed`);
  });

  it('a rank that is silent is named', async () => {
    const root = join(0, 2);
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const silent = new Channel(socket);
    await introduce(silent, { token: 'token', rank: 1, ranks: 2 });
    silent.send({ type: 'value', value: 'elsewhere' });
    (await root).liveness.begin(0);
    expect(await verdictOf(await root)).toBe('rank 1 on elsewhere sent no heartbeat for 2 s, last in its preparations');
    silent.close();
  });

  it('a step that no rank comes out of ends the job, though all are there', async () => {
    const [root, one] = (await joinAll(2, { silenceSeconds: 0.2 })) as [Ranks, Ranks];
    for (const ranks of [root, one]) ranks.liveness.done(300);
    // Something else takes its time.
    root.liveness.pause();
    const wanted = new RegExp(`^rank 1 on ${here} has waited \\d+ s for step -1 to end, as has every other rank`);
    for (const verdict of await Promise.all([root, one].map(verdictOf))) expect(verdict).toMatch(wanted);
  });
});
