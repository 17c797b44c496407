// Imports point one way, through the rooms of scripts/rooms.ts. Commands see index.ts and program.ts only.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { rooms } from '../../scripts/rooms.ts';

const source = fileURLToPath(new URL('../../src', import.meta.url));

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
/** By file, the files of src that it imports, types included. */
const imported = new Map(
  files.map((file) => {
    const names = [...readFileSync(join(source, file), 'utf8').matchAll(/(?:from|import\(?) ?'(\.[^']+)'/g)];
    const targets = names.map(([, name]) => join(dirname(file), name!));
    // Commands import no file outside src.
    return [file, targets.filter((name) => files.includes(name) || file.startsWith('commands'))] as const;
  }),
);
/** The folder of src that a file is in; its own name for index.ts, program.ts and cli.ts. */
const roomOf = (file: string): string => file.split(sep)[0]!;

/** The room and those below it; below commands are index.ts and program.ts. */
const below = (room: string): Set<string> =>
  room === 'commands'
    ? new Set(['commands', 'index.ts', 'program.ts'])
    : new Set([room, ...(rooms[room]?.imports ?? []).flatMap((name) => [...below(name)])]);

it('every file is in a room, which imports only from rooms below', () => {
  const wrong = [...imported].flatMap(([file, targets]) => {
    if (roomOf(file).endsWith('.ts')) return [];
    const allowed = below(roomOf(file));
    return targets.filter((target) => !allowed.has(roomOf(target))).map((target) => `${file} imports ${target}`);
  });
  expect(wrong).toEqual([]);
  expect(Object.keys(rooms).sort()).toEqual(
    [...new Set(files.map(roomOf).filter((name) => !name.endsWith('.ts')))].sort(),
  );
});

it('a room imports the files that another opens, and each of them is imported', () => {
  const inRooms = [...imported].filter(([file]) => !roomOf(file).endsWith('.ts'));
  const across = inRooms.flatMap(([file, targets]) =>
    targets.filter((target) => roomOf(target) !== roomOf(file) && !roomOf(target).endsWith('.ts')),
  );
  const open = Object.entries(rooms).flatMap(([room, { open }]) =>
    [...open.matchAll(/\S+/g)].map(([name]) => `${room}/${name}.ts`),
  );
  expect([...new Set(across)].sort()).toEqual(open.sort());
});

it('steps know nothing of plans, failures and runs', () => {
  const others = [...imported].flatMap(([file, targets]) =>
    file.startsWith('train/step/') ? targets.filter((target) => /^train\/(plan|failure|run)\//.test(target)) : [],
  );
  expect(others).toEqual([]);
});

const folders = new Map<string, string[]>();
for (const [file, targets] of imported) {
  const others = targets.map(dirname).filter((folder) => folder !== dirname(file) && folder !== '.');
  folders.set(dirname(file), [...(folders.get(dirname(file)) ?? []), ...others]);
}

/** The nodes of the first circle; none: []. */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const done = new Set<string>();
  const visit = (node: string, path: string[]): string[] => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (done.has(node)) return [];
    for (const next of graph.get(node) ?? []) {
      const circle = visit(next, [...path, node]);
      if (circle.length > 0) return circle;
    }
    done.add(node);
    return [];
  };
  for (const node of graph.keys()) {
    const circle = visit(node, []);
    if (circle.length > 0) return circle;
  }
  return [];
}

it.each(Object.entries({ files: imported, folders }))('no circle of %s', (_, graph) => {
  expect(circleIn(graph)).toEqual([]);
});

it("a file's name is used once, but for a command and its function, and an optimizer or sampler and the cases of its op", () => {
  const counted = files
    .filter((file) => !/^(commands|ops\/cases)\//.test(file) && basename(file) !== 'index.ts')
    .map((file) => basename(file));
  expect(counted.filter((name, index) => counted.indexOf(name) !== index)).toEqual([]);
});

it('examples import the package alone', () => {
  const examples = join(source, '../examples');
  const text = readdirSync(examples).map((name) => readFileSync(join(examples, name), 'utf8'));
  const names = [...text.join('').matchAll(/(?:from |import |import\()'([^']+)'/g)].map(([, name]) => name!);
  expect(names.filter((name) => !/^(node:|gpt2\.ts$)/.test(name))).toEqual([]);
});

it('no name is exported by both index.ts and program.ts', () => {
  const namesOf = (file: string): string[] =>
    [...readFileSync(join(source, file), 'utf8').matchAll(/\{([^}]+)\}/g)].flatMap(([, list]) =>
      list!.split(',').map((name) => name.trim().replace(/^type /, '')),
    );
  const ofUsers = new Set(namesOf('index.ts').filter(Boolean));
  expect(ofUsers.size).toBeGreaterThan(40);
  expect(namesOf('program.ts').filter((name) => ofUsers.has(name))).toEqual([]);
});
