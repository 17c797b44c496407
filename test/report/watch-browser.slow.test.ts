// The page of `kernel watch` in a browser, at the width of a desk and of a phone.
import type { Page } from 'playwright-core';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { timesOf } from '../../src/lab/bench-kernels.ts';
import type { KernelRound, RoundKernel } from '../../src/report/kernel-round.ts';
import { LiveServer } from '../../src/report/live/server.ts';
import { until } from '../support/until.ts';
import { describeInChromium, hostile, openTab, type Tab } from './chromium.ts';

const name = 'norm_forward.layernorm fp32';
const kernel: RoundKernel = { name, state: 'waiting', sentence: '', tested: [], times: [] };
const round: KernelRound = {
  ...{ folder: 'my-norm', time: '10:02:33', state: 'compiling', kernels: [{ ...kernel, state: 'compiling' }] },
  history: [],
  spent: { compiling: 0, testing: 0, timing: 0 },
};
const ended = (state: 'right' | 'wrong' | 'notCompiled', changes: Partial<RoundKernel>): KernelRound => ({
  ...{ ...round, state, spent: { compiling: 50, testing: 240, timing: 160 } },
  kernels: [{ ...kernel, state, ...changes }],
});
const times = { cold: 0.5, hot: 0.4 };
const earlier = [
  { hash: 'b2c3d4e5', time: '2026-11-21T10:01:00Z', cold: 1, hot: 0.75 },
  { hash: 'a1b2c3d4', time: '2026-11-21T10:00:00Z', cold: 2, hot: 1.5 },
];
const bench = {
  ...{ sizes: 'N 8192, C 768', calls: 25, flops: 0, bytes: 3e8, bound: 0.1 },
  ...{ ours: { cold: 0.125, hot: 0.1 }, own: times },
};
const title = `${name}, N 8192, C 768, 25 calls a step, on NVIDIA H100 80GB HBM3 (sm90)`;

describeInChromium('the page of kernel watch', (browser) => {
  let server: LiveServer;
  let tab: Tab;
  let page: Page;

  beforeEach(async () => {
    server = await LiveServer.open({ port: 0, host: '127.0.0.1', shows: 'kernels' });
  });
  afterEach(async () => {
    await page.close();
    await server.close();
    expect(tab.troubles).toEqual([]);
  });

  async function open(width: number): Promise<void> {
    tab = await openTab(browser(), server.url, { viewport: { width, height: 900 }, colorScheme: 'light' });
    page = tab.page;
  }
  const text = (id: string) => page.locator(id).innerText();
  const untilState = (wanted: string) => until(async () => expect(await text('#state')).toBe(wanted));

  it.each([1280, 390])('shows a round at %i pixels, and no part of it is wider', async (width) => {
    await open(width);
    await untilState('waiting for the kernels');
    server.show(round);
    await untilState(`compiling ${name}`);
    expect(await text('#title')).toBe('my-norm at 10:02:33');
    server.show({ ...round, state: 'testing', kernels: [{ ...kernel, state: 'testing' }] });
    await untilState(`testing ${name}`);

    const marks = ['....', '..##', '####'];
    server.show(
      ended('wrong', {
        sentence: `N 128, C 128: out is wrong in 6 of 12 elements ${hostile}`,
        wrong: {
          sentence: '',
          map: { rows: 3, columns: 4, each: [1, 1], marks },
          inputs: ['in[1, 2] = 0.5', 'weight[2] = 1'],
        },
      }),
    );
    await untilState('wrong; waits for the next save');
    expect(await text('#tables')).toContain(hostile);
    expect(await text('#tables')).toContain('computed from in[1, 2] = 0.5, weight[2] = 1');
    expect(await page.locator('.map rect').count()).toBe(6);
    expect(await page.locator('.map').getAttribute('aria-label')).toBe('3 rows of 4; wrong elements are coloured');
    const area = await page
      .locator('.map rect')
      .first()
      .evaluate((mark) => mark.getBoundingClientRect().width);
    expect(area).toBeGreaterThan(5);

    server.show(ended('notCompiled', { sentence: 'does not compile', error: 'norm.cu:13:1: error: tanhh' }));
    await untilState('does not compile; waits for the next save');
    expect(await text('#tables')).toMatch(/does not compile\s+norm\.cu:13:1: error: tanhh/);

    const right = { sentence: 'right at 9 sizes', tested: [['N 128, C 128', '4', '12%']] as const };
    const history = [['10:01:02', `${name}: does not compile`, '0.21 s']] as const;
    server.show({ ...ended('right', { ...right, times: [{ title, ...timesOf(bench, earlier) }] }), history });
    await untilState('right; waits for the next save');
    expect(await text('#tiles')).toMatch(/Compiling\s+0\.05 s\s+Testing\s+0\.24 s\s+Timing\s+0\.16 s/);
    expect(await text('#tables')).toMatch(
      /N 128, C 128\s+4\s+12%[\s\S]*10:01:02\s+norm_\S+ fp32: does not compile\s+0\.21 s/,
    );
    const bars = await page
      .locator('table:has(.bar)')
      .evaluateAll((tables) =>
        tables.map((table) => [...table.querySelectorAll('.bar rect')].map((bar) => bar.getBoundingClientRect().width)),
      );
    const shares = bars.map((widths) => widths.map((each) => Number((each / Math.max(...widths)).toFixed(3))));
    expect(shares).toEqual([
      [0.2, 0.25, 1],
      [0.25, 0.5, 1],
    ]);
    expect(await page.locator('table:has(.bar)').last().innerText()).toMatch(
      /this kernel[\s\S]*b2c3d4 11-21 10:01[\s\S]*a1b2c3 11-21 10:00/,
    );
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);

    await page.keyboard.press('t');
    expect(await text('#theme')).toBe('Light');
    await server.close();
    await untilState('no connection: kernel watch may have ended; trying again');
  });

  it('a viewer that comes later sees the last round, and an error of the card', async () => {
    server.show({ ...round, state: 'wrong', kernels: [], error: `the kernel card has no kernels ${hostile}` });
    await open(390);
    await untilState('failed; waits for the next save');
    expect(await text('pre')).toBe(`the kernel card has no kernels ${hostile}`);
    expect(await page.locator('img').count()).toBe(0);
  });
});
