// Writes steps in Chrome's trace format, for https://ui.perfetto.dev: one process per rank, one row per stream and kind.
import { type Kernel, kindOf, type Span } from './steps.ts';

/** The JSON trace of each rank's kernels in its step. */
export function chromeTrace(ranks: readonly { readonly kernels: readonly Kernel[]; readonly step: Span }[]): string {
  const origin = Math.min(...ranks.map(({ step }) => step.start));
  const events = ranks.flatMap(({ kernels }, rank) => {
    const rows: { label: string; end: number }[] = [];
    const spans = kernels.map((kernel) => {
      const kind = kindOf(kernel);
      const label = `stream ${kernel.stream}, ${kind}`;
      // A kernel that begins before the last one ends takes another row: a viewer would nest it.
      let tid = rows.findIndex((row) => row.label === label && row.end <= kernel.start);
      if (tid < 0) tid = rows.push({ label, end: 0 }) - 1;
      rows[tid]!.end = kernel.end;
      const { name, start, end, blocks, node } = kernel;
      // In microseconds.
      const time = { ts: 1000 * (start - origin), dur: 1000 * (end - start) };
      return { ph: 'X', pid: rank, tid, name, cat: kind, ...time, args: { blocks, node } };
    });
    const name = (what: string, tid: number, text: string) => ({
      ...{ ph: 'M', pid: rank, tid, name: what, args: { name: text } },
    });
    return [
      name('process_name', 0, `rank ${rank}`),
      ...rows.map(({ label }, tid) => name('thread_name', tid, label)),
      ...spans,
    ];
  });
  return `${JSON.stringify({ displayTimeUnit: 'ms', traceEvents: events })}\n`;
}
