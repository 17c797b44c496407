// The live page: what a run does, as it does it. The page is the same for every run: all it shows comes as events (see
// ../live/event-stream.ts), so that nothing of a run is ever part of its markup.
import { htmlDocument, pageScript, part, plotMarkup } from './document.ts';

/** The page, and the policy that it is to be sent with. */
export function livePage(): { html: string; policy: string } {
  const body = `<header>
<h1 id="title">gpt2.ts</h1>
<p id="state" role="status" data-state="waiting">waiting for the run</p>
<button type="button" id="theme" title="dark or light (t)">Dark</button>
</header>
<main>
<div id="progress" role="progressbar" aria-label="Steps done" aria-valuemin="0"><div></div></div>
<dl id="tiles" aria-label="The run now"></dl>
${plotMarkup}
<section aria-labelledby="samples-title"><h2 id="samples-title">Samples</h2>
<label>at step <select id="sample-step" disabled></select></label>
<pre id="sample" tabindex="0" aria-labelledby="samples-title">none yet</pre></section>
<section aria-labelledby="log-title"><h2 id="log-title">Log</h2>
<pre id="log-tail" tabindex="0" aria-labelledby="log-title"></pre></section>
<div id="tables"></div>
</main>
<footer id="sources"></footer>`;
  const style = part('page.css') + part('run.css');
  const script = pageScript('live.js');
  return htmlDocument({ title: 'gpt2.ts', style, script, body, connects: true });
}
