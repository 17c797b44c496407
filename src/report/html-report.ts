// Makes the HTML documents, a report and the live pages. Each contains one script (page/) and one style sheet. A report also contains its
// data (figure.ts). A live page receives its data as events (live/event-stream.ts), so no text from a run becomes markup.
import { hash } from 'node:crypto';
import { type BundleName, bundled } from './bundle.ts';
import type { Figure } from './figure.ts';
import { pack } from './points.ts';
import { escapeText } from './svg.ts';

const plotMarkup = `<div class="controls" role="toolbar" aria-label="What the plot shows">
<div class="group" id="series" role="group" aria-label="Series"></div>
<div class="group">
<button type="button" id="log" title="logarithmic axis (l)">Log</button>
<button type="button" id="difference" title="difference from another curve (d)">Difference</button>
</div>
<label id="baseline-label" hidden>from <select id="baseline"></select></label>
<label>Smoothing <input type="range" id="smoothing" min="0" max="0.999" step="0.001" value="0" title="exponential moving average (s)"> <output id="smoothing-value" for="smoothing">0</output></label>
<div class="group end">
<button type="button" id="zoom-out" title="zoom out (-)" aria-label="Zoom out">−</button>
<button type="button" id="zoom-in" title="zoom in (+)" aria-label="Zoom in">+</button>
<button type="button" id="zoom-all" title="all steps, with the first percent (a)">All</button>
<button type="button" id="zoom-reset" title="the first view (0)">Reset</button>
</div>
</div>
<div id="legend" role="group" aria-label="Curves shown"></div>
<div id="chart" role="application" tabindex="0" aria-label="Plot of the curves" aria-describedby="keys">
<div id="tooltip" hidden></div>
</div>
<p id="announcement" class="unseen" aria-live="polite"></p>
<p id="keys">Drag to zoom, shift-drag to move, wheel to zoom, double click for the first view.
<kbd>←</kbd> <kbd>→</kbd> cursor, <kbd>+</kbd> <kbd>−</kbd> <kbd>0</kbd> zoom, <kbd>a</kbd> all steps, <kbd>l</kbd> log, <kbd>d</kbd> difference, <kbd>s</kbd> smoothing, <kbd>1</kbd> <kbd>2</kbd> … series, <kbd>t</kbd> dark or light</p>`;

/** The report as one HTML document, which needs neither a server nor a network. */
export const htmlReport = (data: Figure): string =>
  documentOf({
    script: 'page.js',
    title: data.title,
    state: data.run ? stateMarkup : '',
    main: runMarkup(data),
    end: `<footer id="sources"></footer>
<script type="application/json" id="data">${scriptJson(data)}</script>`,
  }).html;

/** The subject of a live page: a training run, or kernels for `kernel watch`. */
export type Shows = 'run' | 'kernels';

/** A live page's document and its content security policy: the page's script can connect only to the page's server. */
export const livePage = (shows: Shows = 'run') => {
  const isRun = shows === 'run';
  return documentOf({
    script: isRun ? 'live.js' : 'watch.js',
    title: 'gpt2.ts',
    state: stateMarkup,
    main: isRun ? runMarkup(undefined) : `${tilesMarkup}\n<div id="tables"></div>`,
    end: isRun ? '<footer id="sources"></footer>' : '',
    connects: true,
  });
};

const stateMarkup = '<p id="state" role="status"></p>';
const tilesMarkup = '<dl id="tiles" aria-label="Last figures"></dl>';

/** Empty elements of a page about a run; page/elements.ts fills them. @param data the report's figure; undefined for the live page */
function runMarkup(data: Figure | undefined): string {
  const ofRun = (markup: string) => (data && !data.run ? '' : markup);
  const samples = `<section aria-labelledby="samples-title"><h2 id="samples-title">Samples</h2>
<label>at step <select id="sample-step" disabled></select></label>
<pre id="sample" tabindex="0" aria-labelledby="samples-title">none yet</pre></section>`;
  return `${data ? '' : '<div id="progress" role="progressbar" aria-label="Steps done" aria-valuemin="0"><div></div></div>'}
${ofRun('<p id="facts"></p>')}
${ofRun(tilesMarkup)}
${plotMarkup}
${data?.run?.samples.length === 0 ? '' : ofRun(samples)}
${ofRun('<section aria-labelledby="log-title"><h2 id="log-title">Log</h2><pre id="log-tail" tabindex="0" aria-labelledby="log-title"></pre></section>')}
<div id="tables"></div>`;
}

type Parts = Readonly<Record<'title' | 'state' | 'main' | 'end', string>> & {
  readonly script: BundleName;
  readonly connects?: boolean;
};

/** A document and its content security policy: nothing is loaded from outside; with `connects` the script may connect to the server. */
function documentOf({ script: name, title: text, state, main, end, connects }: Parts) {
  const script = bundled(name);
  const style = bundled('page.css');
  const policy = [
    "default-src 'none'",
    `script-src ${sourceOf(script)}`,
    `style-src ${sourceOf(style)}`,
    'img-src data:',
    ...(connects ? ["connect-src 'self'"] : []),
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const title = escapeText(text);
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<header>
<h1 id="title">${title}</h1>
${state}
<button type="button" id="theme" title="dark or light (t)">Dark</button>
</header>
<main>
${main}
</main>
${end}
<script>${script}</script>
</body>
</html>
`;
  return { html, policy };
}

const sourceOf = (text: string): string => `'sha256-${hash('sha256', text, 'base64')}'`;

/** JSON for a script element. < is escaped: `</script>` in a text would end the element, `<!--` would change how it is parsed. */
const scriptJson = (value: unknown): string => JSON.stringify(value, pack).replaceAll('<', '\\u003c');
