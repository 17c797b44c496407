// The HTML report: a report's data and the plot in one document that works from a file, without the network. What is shown
// is in report-data.ts.
import { escapeHtml, htmlDocument, pageScript, part, plotMarkup, runMarkup } from './document.ts';
import type { ReportData } from './report-data.ts';

/** A report as one HTML document. */
export function htmlReport(data: ReportData): string {
  const { run } = data;
  const body = `<header>
<h1>${escapeHtml(data.title)}</h1>
${run ? runMarkup.state : ''}
<button type="button" id="theme" title="dark or light (t)">Dark</button>
</header>
<main>
${run ? runMarkup.tiles : ''}
${plotMarkup}
${run && run.samples.length > 0 ? runMarkup.samples : ''}
${run ? runMarkup.log : ''}
<div id="tables"></div>
</main>
<footer id="sources"></footer>
<script type="application/json" id="data">${scriptJson(data)}</script>`;
  const style = part('page.css') + part('run.css');
  return htmlDocument({ title: data.title, style, script: pageScript('page.js'), body, connects: false }).html;
}

/** JSON for the inside of a script element, which would end at the first `</script>` or nest at `<!--`. */
const scriptJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c');
