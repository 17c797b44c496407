import { connect, type Socket } from 'node:net';
import { hostname } from 'node:os';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LiveServer } from '../../src/report/live/server.ts';
import { runEvent } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { WrittenLog } from './streams.ts';

const place = workplace();
let server: LiveServer;
let port: number;
beforeAll(async () => {
  place.file('secret', 'a secret');
  const log = new WrittenLog(place.path('run'));
  log.write(runEvent());
  server = await LiveServer.open({ port: 0, host: '127.0.0.1' });
  server.follow({ run: log.run });
  port = Number(new URL(server.url).port);
});
afterAll(() => server.close());

interface Answer {
  /** 0: the connection was closed without one. */
  readonly status: number;
  readonly text: string;
  /** Whether the server closed the connection by itself. */
  readonly isEnded: boolean;
}

/** Whether an answer is all there on a connection that stays open. */
function isKept(text: string, isHead: boolean): boolean {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, end);
  if (end < 0 || /^connection: close$/im.test(head)) return false;
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  return isHead || /^content-type: text\/event-stream/im.test(head) || text.length >= end + 4 + Number(length);
}

/**
 * Sends bytes and takes what comes: the answer, or what there is until the server closes, or for longer than it may take.
 * @param drop sent again and again after them
 */
function send(bytes: string | Buffer, to = port, drop = ''): Promise<Answer> {
  return new Promise((resolve) => {
    let text = '';
    const socket: Socket = connect(to, '127.0.0.1', () => socket.write(bytes));
    const dripping = drop === '' ? undefined : setInterval(() => socket.write(drop), 200);
    const answer = (isEnded: boolean) => {
      clearTimeout(timer);
      clearInterval(dripping);
      socket.destroy();
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), text, isEnded });
    };
    const timer = setTimeout(() => answer(false), 60_000);
    const isHead = bytes.toString('latin1').startsWith('HEAD');
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part;
      if (isKept(text, isHead)) answer(false);
    });
    socket.on('error', () => {});
    socket.on('close', () => answer(true));
  });
}

const request = (line: string, headers: Record<string, string> = {}) =>
  `${line} HTTP/1.1\r\n${Object.entries({ Host: `localhost:${port}`, ...headers })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;

const stillServes = async () => expect((await send(request('GET /'))).status).toBe(200);

describe('there are two URLs and no files', () => {
  it.each([
    ...['/../secret', '/..%2fsecret', '/%2e%2e/secret', '/%252e%252e%252fsecret', '/..\\secret', '/....//secret'],
    ...['/run/log.jsonl', '/log.jsonl', '//etc/passwd', '/etc/passwd', '/file:///etc/passwd', 'file:///etc/passwd'],
    ...['http://localhost/', 'http://evil.example/events', '/events/', '/events/../', '/events%00', '/EVENTS'],
    ...['/?', '/?file=secret', '/events?run=/etc', '/#', '/.', '/%', '*'],
    ...['/__proto__', '/constructor', '/live.js', '/favicon.ico'],
  ])('GET %s', async (url) => {
    const { status, text, isEnded } = await send(request(`GET ${url}`));
    expect(status).toBe(404);
    expect(isEnded).toBe(true);
    expect(text.split('\r\n\r\n')[1]).toBe('there is nothing here\n');
  });

  it('the page and the stream', async () => {
    expect((await send(request('GET /'))).text).toContain('<!doctype html>');
    expect((await send(request('GET /events'))).text).toContain('text/event-stream');
    const head = await send(request('HEAD /'));
    expect(head.status).toBe(200);
    expect(head.text).not.toContain('<!doctype');
    expect((await send(request('HEAD /events', { Connection: 'close' }))).isEnded).toBe(true);
  });

  it.each(['/', '/events', '/nothing'])('%s is sent with the policy that keeps it to itself', async (url) => {
    const { text } = await send(request(`GET ${url}`));
    expect(text).toMatch(/\r\nContent-Security-Policy: default-src 'none'; .*frame-ancestors 'none'\r\n/);
    expect(text).toContain('\r\nX-Content-Type-Options: nosniff\r\n');
    expect(text).toContain('\r\nCache-Control: no-store\r\n');
    expect(text).not.toMatch(/access-control-allow/i);
  });
});

describe('it can only be read', () => {
  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'MKCOL', 'PURGE'])(
    '%s',
    async (method) => {
      for (const url of ['/', '/events', '/nothing']) {
        const { status, text, isEnded } = await send(request(`${method} ${url}`, { 'Content-Length': '1000000000' }));
        expect(status).toBe(405);
        expect(text).toContain('\r\nAllow: GET, HEAD\r\n');
        expect(isEnded).toBe(true);
      }
    },
  );

  it('CONNECT, and a switch to another protocol', async () => {
    expect((await send(request('CONNECT evil.example:443'))).text).toBe('');
    const { status } = await send(request('GET /', { Connection: 'Upgrade', Upgrade: 'websocket' }));
    expect(status).toBe(200);
  });
});

describe('who asks', () => {
  const thisHost = hostname().toLowerCase() === 'localhost' ? 'x' : hostname();
  const page = (site: string, mode: string) => ({ 'Sec-Fetch-Site': site, 'Sec-Fetch-Mode': mode });
  const all = (status: number, name: string, ...values: string[]) =>
    values.map((value): [number, Record<string, string>] => [status, { [name]: value }]);
  it.each<[number, Record<string, string>]>([
    ...all(200, 'Host', 'localhost', 'LOCALHOST:9000', '127.0.0.1', '[::1]:8042'),
    ...all(421, 'Host', 'evil.example', 'evil.example:8042', 'localhost.evil.example', '127.0.0.1.evil.example'),
    ...all(421, 'Host', '127.0.0.1@evil.example', '10.0.0.1', '[::2]', 'localhost:1:2', 'localhost:', ''),
    ...all(421, 'Host', 'localhost, evil.example', thisHost),
    ...all(200, 'Origin', 'self'),
    ...all(403, 'Origin', 'http://evil.example', 'null', 'http://localhost.evil.example', 'http://localhost'),
    ...all(403, 'Origin', 'file://', ''),
    // An element of a foreign page is refused, a link to the page is followed.
    [403, page('cross-site', 'no-cors')],
    [403, page('same-site', 'no-cors')],
    [200, page('cross-site', 'navigate')],
    [200, page('same-origin', 'cors')],
  ])('the answer is %d with %j', async (status, headers) => {
    if (headers.Origin === 'self') headers.Origin = `http://localhost:${port}`;
    for (const url of ['/', '/events']) expect((await send(request(`GET ${url}`, headers))).status).toBe(status);
  });

  it('no Host at all', async () => {
    expect((await send('GET / HTTP/1.1\r\n\r\n')).status).toBe(400);
    expect((await send('GET / HTTP/1.0\r\n\r\n')).status).toBe(421);
  });

  it('at an address for others: its numbers and the machine by its name, no other names', async () => {
    const open = await LiveServer.open({ port: 0, host: '0.0.0.0' });
    const status = async (host: string) =>
      (await send(request('GET /', { Host: host }), Number(new URL(open.url).port))).status;
    expect(await status('10.1.2.3:8042')).toBe(200);
    expect(await status('[fe80::1]:8042')).toBe(200);
    expect(await status(hostname())).toBe(200);
    expect(await status('evil.example')).toBe(421);
    await open.close();
  });
});

describe('what is too large, or no HTTP', () => {
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`X-${i}`, '1']));
  it.each([
    ['a long URL', () => request(`GET /${'a'.repeat(2000)}`), 414],
    ['a URL of a megabyte', () => request(`GET /${'a'.repeat(1 << 20)}`), 431],
    ['a header of 9 KB', () => request('GET /', { Cookie: 'a'.repeat(9000) }), 431],
    ['two thousand headers', () => request('GET /', many), 431],
    ['no method', () => 'nonsense\r\n\r\n', 400],
    ['TLS', () => Buffer.from('16030100c8010000c40303', 'hex'), 400],
    ['HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['zeros', () => Buffer.alloc(100), 400],
    ['two lengths', () => request('GET /', { 'Content-Length': '1\r\nContent-Length: 2' }), 400],
    ['a length and chunks', () => request('GET /', { 'Content-Length': '5', 'Transfer-Encoding': 'chunked' }), 400],
    ['a control character in a header', () => request('GET /', { 'X-A': 'a\u0000b' }), 400],
    ['a space before the colon', () => `GET / HTTP/1.1\r\nHost : localhost\r\n\r\n`, 400],
  ])('%s', async (_, bytes, status) => {
    const answer = await send(bytes());
    // Where bytes are still under way the connection may break before the answer is read.
    expect([status, 0]).toContain(answer.status);
    expect(answer.isEnded).toBe(true);
    await stillServes();
  });

  it('a second request behind a refused one is not read', async () => {
    const { text } = await send(request('GET /nothing') + request('GET /'));
    expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

describe('who says nothing, or leaves', () => {
  it('a connection without a request is closed, and so is one with half of one', async () => {
    const half = 'GET / HTTP/1.1\r\nX-A: ';
    const answers = await Promise.all([send(''), send(half), send(half, port, 'a')]);
    expect(answers.map(({ isEnded }) => isEnded)).toEqual([true, true, true]);
    await stillServes();
  });

  it('clients that break off in the middle disturb nothing', async () => {
    for (let index = 0; index < 50; index++) {
      await new Promise<void>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => {
          socket.write(request(index % 2 === 0 ? 'GET /events' : 'GET /'));
          setTimeout(() => socket.resetAndDestroy(), index % 5);
        });
        socket.on('error', () => {});
        socket.on('close', () => resolve());
      });
    }
    await stillServes();
  });

  it('connections by the hundred are refused beyond a number, and room is made again', async () => {
    const sockets = Array.from({ length: 400 }, () => connect(port, '127.0.0.1').on('error', () => {}));
    const refused = () => sockets.filter(({ destroyed, readableEnded }) => destroyed || readableEnded);
    await until(() => expect(refused().length).toBeGreaterThan(100));
    for (const socket of sockets) socket.destroy();
    await until(stillServes);
  });
});
