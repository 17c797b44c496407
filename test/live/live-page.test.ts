// A live page's thread that fails before it is closed: a run gets a notice and continues, a command that only serves fails.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { type LivePage, openLivePage } from '../../src/report/live/live-page.ts';
import { until } from '../support/until.ts';

let notices: string[];
let page: LivePage;
beforeEach(async () => {
  notices = [];
  page = await openLivePage({ port: 0, host: '127.0.0.1' }, (text) => notices.push(text));
  notices.length = 0;
});
afterEach(() => page.close());

/** Sends a message that makes the thread fail. */
const breakThread = () => page.follow({ run: 1 as unknown as string });

it('during a run the failure is a notice', async () => {
  breakThread();
  await until(() => expect(notices).toHaveLength(1));
  expect(notices[0]).toMatch(/^the live page has ended: .*; the run continues$/);
});

it('a caller that awaits the end gets the failure as an error', async () => {
  const ended = page.ended();
  breakThread();
  const error = await ended.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(Gpt2Error);
  expect((error as Gpt2Error).message).toMatch(/^the live page has ended: .*; serve it again$/);
  expect(notices).toEqual([]);
});

it('a page that was closed ended without an error', async () => {
  const ended = page.ended();
  page.close();
  await ended;
  expect(notices).toEqual([]);
});

it('nobody watches a page that has failed, nor one without viewers', async () => {
  expect(await page.closeUnwatched()).toBe(false);
  await page.ended();
  expect(await page.closeUnwatched()).toBe(false);
});
