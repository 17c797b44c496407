// Makes the HTML report: a report's data (report-data.ts) and the plot in one document that needs no server or network.
import { escapeHtml, htmlDocument, plotMarkup, runMarkup } from './document.ts';
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
  return htmlDocument({ title: data.title, script: 'page.js', body, connects: false }).html;
}

/** JSON for a script element, which would otherwise end at the first `</script>` or nest at `<!--`. */
const scriptJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c');
