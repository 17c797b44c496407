// Steps in Chrome's trace format, for https://ui.perfetto.dev: a process a rank, a row for each stream and kind.
import { type Kernel, kindOf } from './steps.ts';

/** The trace of what each rank ran, as JSON; `origin` in milliseconds is its beginning. */
export function chromeTrace(ranks: readonly (readonly Kernel[])[], origin: number): string {
  const events = ranks.flatMap((kernels, rank) => {
    const rows: { label: string; end: number }[] = [];
    const spans = kernels.map((kernel) => {
      const kind = kindOf(kernel);
      const label = `stream ${kernel.stream}, ${kind}`;
      // What begins before the one before has ended takes a further row: a viewer nests what lies in one.
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
