// The live page in a browser: a run that continues, a reload, a server that stops and returns, a resume that cuts the log.
import type { Page } from 'playwright-core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LiveServer } from '../../src/report/live/server.ts';
import { StreamViewer, WrittenLog } from '../live/streams.ts';
import { runEvent, trainEvent } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { describeInChromium, hostile, openTab, type Tab } from './chromium.ts';
import { d6 } from './runs-to-draw.ts';

describeInChromium('the live page', (browser) => {
  const place = workplace('each');
  let log: WrittenLog;
  let server: LiveServer;
  let tab: Tab;
  let page: Page;

  beforeEach(async () => {
    log = new WrittenLog(place.path('run'));
    log.write(runEvent());
    server = await serve();
  });
  afterEach(async () => {
    await page.close();
    await server.close();
    expect(tab.troubles).toEqual([]);
    const own = (url: string) => url.startsWith('data:') || ['/', '/events'].includes(new URL(url).pathname);
    expect(tab.requests.filter((url) => !own(url))).toEqual([]);
  });

  async function serve(port = 0): Promise<LiveServer> {
    const live = await LiveServer.open({ port, host: '127.0.0.1' });
    live.follow({ run: log.run, machine: { gpu: undefined } });
    return live;
  }

  /** Runs the command as a separate process. */
  async function reportServe(port: number): Promise<{ url: string; kill: () => void }> {
    const { child, said } = place.begin(['report', 'run', '--serve', '--port', String(port)]);
    const url = await until(() => /^live page: (http:\S+)$/m.exec(said.stdout)![1]!);
    return { url, kill: () => child.kill('SIGKILL') };
  }

  async function open(url = server.url, options: Parameters<typeof openTab>[2] = {}): Promise<void> {
    tab = await openTab(browser(), url, { viewport: { width: 1280, height: 1400 }, ...options });
    page = tab.page;
  }

  const steps = (from: number, to: number) =>
    d6.series.train.slice(from, to).map(([step, loss]) => ({ ...trainEvent(step, loss), ms: 100 }));
  const text = (id: string) => page.locator(id).innerText();
  const described = () => page.locator('#chart').getAttribute('aria-label');
  const untilState = (wanted: string) => until(async () => expect(await text('#state')).toBe(wanted));

  it('shows the run as it trains: curve, figures, samples, log', async () => {
    log.write({ event: 'val', step: 0, loss: 10.9 }, ...steps(0, 40));
    await open();
    await untilState('training after 40 of 400 steps');
    expect(await text('h1')).toBe('run vs llmc-d6-fp32-b4-t64');
    await until(async () => expect(await described()).toBe('loss (nats per token), steps 0 to 39'));
    expect(await page.locator('#smoothing').inputValue()).toBe('0.6');
    expect(await text('#facts')).toBe(
      'd6 · 30,339,456 parameters · tinyshakespeare · CPU (portable) · fp32 · 10,240 tokens · 4s of steps',
    );
    expect(await text('#tiles')).toMatch(/Validation loss\s+10\.9000/);
    expect(await text('#tiles')).toMatch(/Throughput\s+2,560 tokens\/s\s+100 ms a step/);
    await until(async () => expect(await text('#tiles')).toMatch(/Process memory\s+\d/));
    expect(await page.locator('#progress').getAttribute('aria-valuenow')).toBe('40');
    expect(await text('#tables')).toContain('Configuration');

    log.write(...steps(40, 60), { event: 'sample', step: 60, text: `${hostile}\nROMEO:` });
    await untilState('training after 60 of 400 steps');
    // The plot is drawn with the next frame.
    await until(async () => expect(await described()).toMatch(/steps 0 to 59$/));
    expect(await text('#sample')).toBe(`${hostile}\nROMEO:`);
    expect(await page.locator('img').count()).toBe(0);
    expect((await text('#log-tail')).split('\n').at(-1)).toMatch(/^step 59 {3}loss \d\.\d{4} {3}norm 1\.50/);
    expect(await page.title()).toBe('60/400 run vs llmc-d6-fp32-b4-t64');
  });

  it('a chosen view stays while the run continues; a view of the whole run grows with it', async () => {
    log.write(...steps(0, 100));
    await open();
    await untilState('training after 100 of 400 steps');
    await page.keyboard.press('+');
    await until(async () => expect(await described()).toMatch(/steps 25 to 74$/));
    await page.keyboard.press('6');
    log.write(...steps(100, 150));
    await untilState('training after 150 of 400 steps');
    await until(async () => expect(await described()).toBe('throughput (tokens per second), steps 25 to 74'));
    await page.keyboard.press('0');
    await until(async () => expect(await described()).toMatch(/steps 1 to 149$/));
    await page.keyboard.press('1');
    await page.keyboard.press('d');
    await until(async () => expect(await described()).toContain(`− ${d6.name}`));
    await page.locator('#chart').focus();
    await page.keyboard.press('End');
    expect(await text('#tooltip')).toMatch(/step 149[\s\S]*\s0$/);
  });

  it('a reload and a second viewer see the same', async () => {
    log.write(...steps(0, 300), { event: 'sample', step: 300, text: 'once' });
    await open();
    await untilState('training after 300 of 400 steps');
    const before = await text('#log-tail');
    await page.reload();
    await untilState('training after 300 of 400 steps');
    expect(await text('#log-tail')).toBe(before);
    const other = new StreamViewer(server.url);
    await until(() => expect(other.lines).toEqual(log.lines));
    other.close();
  });

  it('a run that ends is reported, and continues where it was after a resume', async () => {
    log.write(...steps(0, 20));
    const saved = log.bytes;
    log.write(...steps(20, 50));
    await open();
    await untilState('training after 50 of 400 steps');
    const port = Number(new URL(server.url).port);
    await server.close();
    await untilState('stopped after 50 of 400 steps; continues here when the run does');
    // A resume cuts the log to the checkpoint, then appends.
    log.cut(saved);
    log.write({ ...runEvent(), resumedFrom: 20, time: '2026-01-02T00:00:00Z' }, ...steps(20, 22));
    server = await serve(port);
    await untilState('training after 22 of 400 steps');
    expect((await text('#log-tail')).match(/step 21 /g)).toHaveLength(1);
    expect(await text('#log-tail')).not.toContain('step 30 ');
    expect(await described()).toMatch(/steps 0 to 21$/);
    log.write(...steps(22, 400), { event: 'done', steps: 400, seconds: 40, weights: 'x' });
    await untilState('finished after 400 of 400 steps');
    await server.close();
    await page.waitForTimeout(500);
    expect(await text('#state')).toBe('finished after 400 of 400 steps');
  });

  it('after its server was killed, the page has no connection until another one starts', async () => {
    log.write(...steps(0, 20));
    const first = await reportServe(0);
    await open(first.url);
    await untilState('training after 20 of 400 steps');
    first.kill();
    await untilState('no connection: the run may have ended; trying again');
    log.write(...steps(20, 30));
    const second = await reportServe(Number(new URL(first.url).port));
    await untilState('training after 30 of 400 steps');
    expect((await text('#log-tail')).match(/step 19 /g)).toHaveLength(1);
    expect(await text('#tiles')).not.toContain('Process memory');
    second.kill();
  });

  it('keeps a run whose server has ended, and shows it once when another one starts', async () => {
    log.write(...steps(0, 20), { event: 'sample', step: 20, text: 'ROMEO:' });
    await open(server.url, { hasClock: true });
    await untilState('training after 20 of 400 steps');
    const port = Number(new URL(server.url).port);
    await server.close();
    const stopped = 'stopped after 20 of 400 steps; continues here when the run does';
    await untilState(stopped);
    const before = await text('#log-tail');
    // Twice the silence after which the page connects anew.
    await page.clock.runFor(50_000);
    expect(await text('#state')).toBe(stopped);
    expect(await text('#log-tail')).toBe(before);
    expect(await text('#sample')).toBe('ROMEO:');
    expect(await text('#tiles')).toMatch(/Training loss\s+\d/);
    log.write(...steps(20, 30));
    server = await serve(port);
    await until(async () => {
      await page.clock.runFor(1000);
      expect(await text('#state')).toBe('training after 30 of 400 steps');
    });
    expect((await text('#log-tail')).match(/step 19 /g)).toHaveLength(1);
  });

  it('an older sample stays in view while newer ones arrive', async () => {
    const sample = (step: number, text: string) => ({ event: 'sample', step, text }) as const;
    log.write(...steps(0, 20), sample(10, 'ten'), sample(20, 'twenty'));
    await open();
    await until(async () => expect(await text('#sample')).toBe('twenty'));
    await page.locator('#sample-step').selectOption('10');
    log.write(sample(30, 'thirty'), ...steps(20, 31));
    await untilState('training after 31 of 400 steps');
    expect(await text('#sample')).toBe('ten');
    expect(await page.locator('#sample-step').inputValue()).toBe('10');
  });

  it('a long run is shown', async () => {
    log.write(...Array.from({ length: 100_000 }, (_, step) => trainEvent(step, 3 + Math.sin(step))));
    await open();
    await untilState('training after 100,000 of 400 steps');
  });
});
