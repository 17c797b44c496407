// Makes the live page, which shows a run while it trains. Its document is the same for every run: all data arrives as events
// (../live/event-stream.ts), so no text of a run is ever part of its markup.
import { htmlDocument, plotMarkup, runMarkup } from './document.ts';

/** The page, and the content security policy to send with it. */
export function livePage(): { html: string; policy: string } {
  const body = `<header>
<h1 id="title">gpt2.ts</h1>
${runMarkup.state}
<button type="button" id="theme" title="dark or light (t)">Dark</button>
</header>
<main>
<div id="progress" role="progressbar" aria-label="Steps done" aria-valuemin="0"><div></div></div>
${runMarkup.tiles}
${plotMarkup}
${runMarkup.samples}
${runMarkup.log}
<div id="tables"></div>
</main>
<footer id="sources"></footer>`;
  return htmlDocument({ title: 'gpt2.ts', script: 'live.js', body, connects: true });
}
