// Pages in a browser, for tests of what a reader sees and does. Without Chromium (/usr/bin/chromium, or the one that CHROMIUM names)
// the tests are skipped with that reason.
import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const reason = existsSync(executablePath) ? '' : ` (skipped: no ${executablePath}; install chromium or set CHROMIUM)`;

/** A text that must not become markup. */
export const hostile = '</script><img src=x onerror=alert(1)>';

/** The tests of a page. `browser()` is there while they run. */
export function describeInChromium(name: string, tests: (browser: () => Browser) => void): void {
  describe.skipIf(reason !== '')(`${name} in Chromium${reason}`, () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
    });
    afterAll(() => browser?.close());
    tests(() => browser);
  });
}

/** A page, what it requested, and its errors: those of a server that ended are not the page's. */
export interface Tab {
  readonly page: Page;
  readonly requests: readonly string[];
  readonly troubles: readonly string[];
}

type Options = Parameters<Browser['newPage']>[0] & { readonly hasClock?: boolean };

export async function openTab(browser: Browser | BrowserContext, url: string, options: Options = {}): Promise<Tab> {
  const { hasClock = false, colorScheme = 'light', ...others } = options;
  const page = await (browser as Browser).newPage(others);
  await page.emulateMedia({ colorScheme });
  const [requests, troubles] = [[] as string[], [] as string[]];
  const trouble = (text: string) => {
    if (!/net::ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING)/.test(text)) troubles.push(text);
  };
  page.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => trouble(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') trouble(message.text());
  });
  page.on('dialog', (dialog) => {
    trouble(dialog.message());
    void dialog.dismiss();
  });
  if (hasClock) await page.clock.install();
  await page.goto(url);
  return { page, requests, troubles };
}
