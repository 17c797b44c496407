// Makes two compilations (assembly) of one source file ready to be linked into one program on a CPU. The first checks memory accesses. The
// second, its twin, is optimized and has no checks: it runs host code and the thread blocks that are not checked. The twin's functions,
// except main, get other names. The twin uses the variables of the first compilation.

/** A line of assembly with a data directive of the GNU assembler. */
export const data =
  /^\s*\.(zero|skip|space|[bl]?string|asciz?|byte|value|short|hword|word|long|int|quad|xword|octa|[248]byte|base64)\b/;

const namesIn = (assembly: string, lines: string): string[] =>
  [...assembly.matchAll(new RegExp(lines, 'gm'))].map(([, name]) => name!);

/** Names of the functions, or of the variables, that an assembly file defines. */
function defined(assembly: string, kind: 'function' | 'object'): Set<string> {
  const labels = new Set(namesIn(assembly, String.raw`^([\w.$]+):`));
  const typed = namesIn(assembly, String.raw`^\s*\.type\s+([^\s,]+),\s*[@%]\w*${kind}`).filter((name) =>
    labels.has(name),
  );
  return new Set(kind === 'object' ? [...typed, ...namesIn(assembly, String.raw`^\s*\.comm\s+([\w.$]+)`)] : typed);
}

/** Renames all symbols in assembly by `name`, except inside strings. */
export const replaced = (assembly: string, name: (symbol: string) => string): string =>
  assembly.replaceAll(/"(?:[^"\\\n]|\\.)*"|[\w.$]+/g, (token) => (token[0] === '"' ? token : name(token)));

/**
 * Renames symbols so that both compilations of a file can be linked.
 * @param checked assembly with checks; `plain`: assembly of the same source without checks
 * @param index the file's index in the program, made part of names, because several files may have static variables of one name
 * @returns both files, to be linked. The section gpt2_twins has pairs of addresses: of a kernel with checks, and of its twin
 */
export function twins(checked: string, plain: string, index: number): { checked: string; plain: string } {
  const functions = defined(plain, 'function');
  functions.delete('main');
  const variables = defined(checked, 'object');
  const plainVariables = defined(plain, 'object');
  const shared = new Set([...plainVariables].filter((name) => variables.has(name)));
  // Names of comdat groups (duplicate sections of which the linker keeps one) are renamed too, even if no function has the name.
  const groups = namesIn(plain, String.raw`^\s*\.section\s.*,([\w.$]+),comdat`).filter(
    (name) => !plainVariables.has(name),
  );
  const renamed = new Set([...functions, ...groups]);
  // Functions whose address is taken may be kernels that are launched by address.
  const addressing = plain.split('\n').filter((line) => /^\s*(lea|mov|adr|\.quad|\.xword)/.test(line));
  const addressed = new Set(addressing.flatMap((line) => line.match(/[\w.$]+/g)));
  const bodies = [...defined(checked, 'function')].filter(
    (name) => functions.has(name) && (name.includes('gpt2_body') || (addressed.has(name) && !/^_ZNK?S/.test(name))),
  );
  // Local symbols, of the file with checks, to which the twin refers. They become global but hidden.
  const isGlobal = new Set(namesIn(checked, String.raw`^\s*\.(?:globl|weak)\s+([\w.$]+)`));
  const exported = new Set([...shared, ...bodies].filter((name) => !isGlobal.has(name) && !name.startsWith('.L')));
  const own = (symbol: string) =>
    exported.has(symbol) && (index > 0 || functions.has(symbol)) ? `${symbol}.${index}` : symbol;

  const lines: string[] = [];
  let [isSkipped, isStart] = [false, false];
  for (const line of plain.split('\n')) {
    if (/^\s*\.(section|text|data|bss|pushsection|popsection)\b/.test(line)) {
      [isSkipped, isStart] = [false, /\.(init|fini)_array|\.[cd]tors/.test(line)];
    }
    const label = /^([\w.$]+):/.exec(line)?.[1] ?? /^\s*\.(?:comm|local)\s+([\w.$]+)/.exec(line)?.[1];
    if (label !== undefined) [isSkipped, isStart] = [shared.has(label), false];
    if (isStart ? data.test(line) : isSkipped && (label !== undefined || data.test(line))) continue;
    const name = /^\s*\.(?:type|size)\s+([\w.$]+)/.exec(line)?.[1];
    if (name === undefined || !shared.has(name)) lines.push(line);
  }
  const pairs = bodies.map((name) => `.hidden ${own(name)}\n.quad ${own(name)}, ${name}.plain`).join('\n');
  const hidden = [...exported].map((name) => `.globl ${own(name)}\n.hidden ${own(name)}\n`).join('');
  const isLocal = (line: string) => exported.has(/^\s*\.local\s+([\w.$]+)/.exec(line)?.[1] ?? '');
  const kept = checked.split('\n').filter((line) => !isLocal(line));
  return {
    checked: `${replaced(kept.join('\n'), (symbol) => (symbol === 'main' ? 'main.checked' : own(symbol)))}\n${hidden}`,
    plain: [
      replaced(lines.join('\n'), (symbol) => (renamed.has(symbol) ? `${symbol}.plain` : own(symbol))),
      ...[...shared].filter((name) => exported.has(name)).map((name) => `.hidden ${own(name)}`),
      `.section gpt2_twins,"aw"\n.balign 8\n${pairs}\n`,
    ].join('\n'),
  };
}
