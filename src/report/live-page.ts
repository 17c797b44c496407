// The live page: what a run does, as it does it. The page is the same for every run: all it shows comes as events (see
// ../live/event-stream.ts), so that nothing of a run is ever part of its markup.
import { htmlDocument, pageScript, part, plotMarkup, runMarkup } from './document.ts';

/** The page, and the policy that it is to be sent with. */
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
  const style = part('page.css') + part('run.css');
  const script = pageScript('live.js');
  return htmlDocument({ title: 'gpt2.ts', style, script, body, connects: true });
}
