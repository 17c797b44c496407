import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { readRun } from '../index.ts';
import {
  defaultPort,
  htmlReport,
  makeFigure,
  newestRun,
  openLivePage,
  optionTable,
  pairRuns,
  usageError,
  whole,
} from '../program.ts';
import { type Numbers, numberOption, type Switches, type Texts, tableOption } from './option-of-table.ts';
import { notice, writeResult } from './output.ts';

const examples = `
Examples:
  npm run gpt2 -- report                             of the newest run in runs/
  npm run gpt2 -- report runs/d6                     runs/d6/report.html: one file that needs no network
  npm run gpt2 -- report runs/d6 --serve             http://127.0.0.1:${defaultPort}/, of a run that trains or has ended
  npm run gpt2 -- report runs/d6 --serve --port 0    at any free port
  ssh -L ${defaultPort}:localhost:${defaultPort} machine                 forwards the page from another machine

The page shows the curves next to the reference of the same configuration, how the run ended, throughput, samples and the end
of the log. It is read-only. train --serve also shows the machine's memory and temperature.
`;

type Flags = Texts<'html' | 'serveHost'> & Switches<'serve'> & Numbers<'port'>;

export function reportCommand(): Command {
  return new Command('report')
    .description('Write or serve the report of a run')
    .argument('[RUN]', 'run folder (default: the newest in runs/)')
    .option('--html <FILE>', 'file to write (default: report.html in the run folder)')
    .option('--serve', 'serve the report as a live page instead, until Ctrl-C')
    .addOption(numberOption('--port <N>', `with --serve: port (default: ${defaultPort})`, whole(0, 65535)))
    .addOption(tableOption('serveHost'))
    .addHelpText('after', examples)
    .action(report);
}

async function report(named: string | undefined, { html, serve, port, serveHost }: Flags): Promise<void> {
  if (serve && html !== undefined) throw usageError`--html writes a file, --serve serves it: give one of them`;
  if (!serve && port !== undefined) throw usageError`--port goes with --serve: give both`;
  if (!serve && serveHost !== undefined) throw usageError`--serve-host goes with --serve: give both`;
  if (serve && named !== undefined && /^\d+$/.test(named) && !existsSync(named)) {
    throw usageError`there is no run ${named}; give a port with its flag, as --serve --port ${named}`;
  }
  const folder = named ?? newestRun();
  if (named === undefined) notice(`newest run: ${folder}`);
  if (serve) {
    // Throws if the folder has no run; without this check the page would wait for a run forever.
    readRun(folder);
    const notice = (text: string) => process.stdout.write(`${text}\n`);
    const host = serveHost ?? optionTable.serveHost.default;
    const page = await openLivePage({ port: port ?? defaultPort, host }, notice);
    page.follow({ run: folder });
    return page.ended();
  }
  const path = html ?? join(folder, 'report.html');
  const { runs, baselines } = pairRuns([folder]);
  writeResult('report', path, htmlReport(makeFigure(runs, baselines)), '--html');
  process.stdout.write(`report: ${path}\n`);
}
