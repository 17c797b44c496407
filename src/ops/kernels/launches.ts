// Finds launches, kernel<<<grid, block>>>(...), in preprocessed CUDA, and makes the C++ calls that replace them (rewrite.ts).
import { endOf, split } from './brackets.ts';

/** The line breaks of a text. Code that replaces the text includes them, so that later lines keep their numbers. */
export const linesOf = (text: string): string => '\n'.repeat(text.split('\n').length - 1);

/** The offset at which the last expression of a text starts: in "return ns::scale<256>", the offset of "ns". */
export function calleeStart(text: string): number {
  let at = text.trimEnd().length;
  for (;;) {
    const pairs = { '>': '<', ')': '(', ']': '[' }[text[at - 1] ?? ''];
    if (pairs !== undefined) {
      let [depth, angles] = [0, 0];
      do {
        const letter = text[--at]!;
        if (')]'.includes(letter)) depth++;
        if ('(['.includes(letter)) depth--;
        // Inside ( ) or [ ], < and > are comparisons.
        if (pairs === '<' && depth === 0) angles += { '>': 1, '<': -1 }[letter] ?? 0;
      } while (depth + angles > 0 && at > 0);
      at = text.slice(0, at).trimEnd().length;
      if (pairs === '(') {
        // In "(*kernel)<<<" the brackets are the whole expression; in "table(i)<<<" a name precedes the brackets.
        if (!/\w$/.test(text.slice(0, at)) || /\b(return|else|do)$/.test(text.slice(0, at))) return at;
      }
      continue;
    }
    at -= /\w*$/.exec(text.slice(Math.max(0, at - 200), at))![0].length;
    const joint = /(::|\.|->)\s*$/.exec(text.slice(Math.max(0, at - 50), at));
    if (!joint) return at;
    at = at - joint[0].length;
    at = text.slice(0, at).trimEnd().length;
    if (!/[\w>)\]]$/.test(text.slice(0, at))) return at;
  }
}

/** Whether a name means a kernel: a kernel has the name, and no variable ("auto name = ...", "void (*name)(float *)") hides the kernel. */
function isKernelName(source: string, name: string): boolean {
  const kernels = source.match(RegExp(`(template\\b[^;{}]*)?__global__[^;{}]*\\b${name}\\s*\\([^)]*`, 'g')) ?? [];
  // Templates and overloaded kernels are excluded: their address cannot be taken by the name alone.
  const isTyped = new Set(kernels).size === 1 && !kernels[0]!.startsWith('template');
  return kernels.length > 0 && !(isTyped && RegExp(`(\\bauto\\s*[*&]?|\\(\\s*\\*)\\s*${name}\\b`).test(source));
}

/** The C++ call that replaces a launch, and the launch's end; undefined if "<<<" begins no launch. @param at the offset after "<<<" */
export function launchAt(source: string, at: number, callee: string, unchecked: string) {
  const end = endOf(source, at, '>>>');
  const after = /^>>\s*>\s*\(/.exec(source.slice(end, end + 100));
  if (!after) return undefined;
  const start = end + after[0].length;
  const last = endOf(source, start, ')');
  const shape = source.slice(at, end);
  // NULL (__null in GCC) becomes nullptr: the argument is bound to a variable, where __null would become an integer.
  const args = split(source.slice(start, last), ',').map((arg) => arg.replace(/^(\s*)__null(\s*)$/, '$1nullptr$2'));
  const name = JSON.stringify(callee.replaceAll(/\s+/g, ' ').trim());
  const [, called] = /(?:^|::)\s*(\w+)\s*(?:<.*)?$/s.exec(callee.trim()) ?? [];
  const isKernel = called && isKernelName(source, called);
  // If the kernel is called by a pointer, the pointer is passed as an argument, because it may point to another kernel at each launch.
  const [pointer, kernel, first] = isKernel
    ? ['', callee, '']
    : ['auto &gpt2_k, ', '::gpt2_emulator::called(gpt2_k)', `, ${callee}`];
  // A literal 0 is repeated in the call: the 0 may mean a null pointer, to which C++ does not convert a variable of value 0.
  const isZero = (arg: string) => arg.trim() === '0';
  const isPack = !args.some(isZero) || args.join().includes('...');
  const parameters = isPack ? 'auto &...gpt2_a' : args.map((_, i) => `auto &gpt2_a${i}`).join(', ');
  const values = isPack ? 'gpt2_a...' : args.map((arg, i) => (isZero(arg) ? '0' : `gpt2_a${i}`)).join(', ');
  const body = `[&](${pointer}${parameters}) ${unchecked} { ${kernel}(${values}); }`;
  const passed = first + (args.join(',').trim() === '' ? linesOf(args.join()) : `, ${args.join(',')}`);
  return {
    end: last + 1,
    call: `::gpt2_emulator::launch(${name}, ${body}, ::gpt2_emulator::Shape(${shape})${passed})`,
  };
}
