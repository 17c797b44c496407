// @ts-check
// The script of the HTML report: its data lies in the document.
import { showReport, startViewer } from './viewer.js';

showReport(JSON.parse(document.getElementById('data')?.textContent ?? ''));
startViewer();
