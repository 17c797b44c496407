// Makes the document of the HTML report and of the live page: self-contained, with one script, one style and the plot with its
// controls. html-report.ts and live-page.ts add the rest of the markup; page/ holds the behaviour.
import { createHash } from 'node:crypto';
import { type BundleName, bundled } from './bundle.ts';

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
<div id="tooltip" hidden></div>
</div>
<p id="announcement" class="unseen" aria-live="polite"></p>
<p id="keys">Drag to zoom, shift-drag to move, wheel to zoom, double click for the whole run.
<kbd>←</kbd> <kbd>→</kbd> cursor, <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> zoom, <kbd>l</kbd> log, <kbd>d</kbd> difference, <kbd>s</kbd> smoothing, <kbd>1</kbd> <kbd>2</kbd> … series, <kbd>t</kbd> dark or light</p>`;

/** Empty elements for a run's state, last figures, samples and the end of its log; page/figures.ts fills them. */
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
  readonly script: BundleName;
  /** Markup of the body before its script. */
  readonly body: string;
  /** Whether the script may connect to the server that the page came from; it may connect to no other. */
  readonly connects: boolean;
}

/** A document and its content security policy: it runs and loads nothing from outside. */
export function htmlDocument({ title, script: name, body, connects }: Parts): { html: string; policy: string } {
  const [script, style] = [bundled(name), bundled('page.css')];
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
