// What the HTML report and the live page are made of: one document that needs nothing else, page/'s modules as one script,
// and the plot with its controls. What else is on either is in html-report.ts and live-page.ts, how it behaves in page/.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../package-root.ts';

/** The package holds src/ beside dist/: one copy of the page serves both. */
const folder = join(packageRoot, 'src', 'report', 'page');

/** A file of page/. */
export const part = (name: string): string => readFileSync(join(folder, name), 'utf8');

/** A module and all that it imports as one script: a page opened from a file cannot load modules. */
export function pageScript(entry: string): string {
  const bodies = withImports(entry).map((name) =>
    part(name)
      .replaceAll(/^import [^;]*;\n/gm, '')
      .replaceAll(/^export /gm, ''),
  );
  return `(() => {\n'use strict';\n${bodies.join('\n')}\n})();\n`;
}

/** Names of a module and of those it imports, each after those it imports itself. */
function withImports(name: string): string[] {
  const imported = [...part(name).matchAll(/^import [^;]* from '\.\/([^']+)';/gm)].flatMap((match) =>
    withImports(match[1]!),
  );
  return [...new Set([...imported, name])];
}

/** The plot and its controls. */
export const plotMarkup = `<div class="controls" role="toolbar" aria-label="What the plot shows">
<div class="group" id="series" role="group" aria-label="Series"></div>
<div class="group">
<button type="button" id="log" title="logarithmic axis (l)">Log</button>
<button type="button" id="difference" title="difference from another curve (d)">Difference</button>
</div>
<label id="baseline-label" hidden>from <select id="baseline"></select></label>
<label>Smoothing <input type="range" id="smoothing" min="0" max="0.99" step="0.01" value="0" title="exponential moving average (s)"> <output id="smoothing-value" for="smoothing">0</output></label>
<div class="group end">
<button type="button" id="zoom-out" title="zoom out (-)" aria-label="Zoom out">−</button>
<button type="button" id="zoom-in" title="zoom in (+)" aria-label="Zoom in">+</button>
<button type="button" id="zoom-reset" title="whole run (0)">Reset</button>
</div>
</div>
<div id="legend" role="group" aria-label="Curves shown"></div>
<div id="chart" role="application" tabindex="0" aria-label="Plot of the curves" aria-describedby="keys">
<canvas id="plot"></canvas>
<canvas id="overlay"></canvas>
<div id="tooltip" hidden></div>
</div>
<p id="announcement" class="unseen" aria-live="polite"></p>
<p id="keys">Drag to zoom, shift-drag to move, wheel to zoom, double click for the whole run.
<kbd>←</kbd> <kbd>→</kbd> cursor, <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> zoom, <kbd>l</kbd> log, <kbd>d</kbd> difference, <kbd>s</kbd> smoothing, <kbd>1</kbd> <kbd>2</kbd> … series, <kbd>t</kbd> dark or light</p>`;

/** A run's state and its last figures, samples, the end of its log: page/figures.js puts them in. */
export const runMarkup = {
  state: '<p id="state" role="status"></p>',
  tiles: '<dl id="tiles" aria-label="Last figures"></dl>',
  samples: `<section aria-labelledby="samples-title"><h2 id="samples-title">Samples</h2>
<label>at step <select id="sample-step" disabled></select></label>
<pre id="sample" tabindex="0" aria-labelledby="samples-title">none yet</pre></section>`,
  log: `<section aria-labelledby="log-title"><h2 id="log-title">Log</h2>
<pre id="log-tail" tabindex="0" aria-labelledby="log-title"></pre></section>`,
};

interface Parts {
  readonly title: string;
  readonly style: string;
  readonly script: string;
  /** Markup of the body before its script. */
  readonly body: string;
  /** Whether the script may ask the server that the page came from; it may ask no other. */
  readonly connects: boolean;
}

/** A whole document, and its policy: nothing runs or loads but what is in it. */
export function htmlDocument({ title, style, script, body, connects }: Parts): { html: string; policy: string } {
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    'img-src data:',
    ...(connects ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
${body}
<script>${script}</script>
</body>
</html>
`;
  return { html, policy };
}

const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
