// The HTML report: a report's data and the plot in one document that works from a file, without the network. What is shown
// is in report-data.ts.
import { escapeHtml, htmlDocument, pageScript, part, plotMarkup } from './document.ts';
import type { ReportData } from './report-data.ts';

/** A report as one HTML document. */
export function htmlReport(data: ReportData): string {
  const body = `<header>
<h1>${escapeHtml(data.title)}</h1>
<button type="button" id="theme" title="dark or light (t)">Dark</button>
</header>
<main>
${plotMarkup}
<div id="tables"></div>
</main>
<footer id="sources"></footer>
<script type="application/json" id="data">${scriptJson(data)}</script>`;
  const style = part('page.css');
  return htmlDocument({ title: data.title, style, script: pageScript('page.js'), body, connects: false }).html;
}

/** JSON for the inside of a script element, which would end at the first `</script>` or nest at `<!--`. */
const scriptJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c');
