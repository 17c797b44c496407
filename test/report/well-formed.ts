// A check that a document's tags nest, for tests of what draws one.
import { expect } from 'vitest';

/** Every tag that opens closes, in order, and attributes and entities are whole. */
export function expectWellFormed(svg: string): void {
  const open: string[] = [];
  for (const [, close, name, attributes, self] of svg.matchAll(
    /<(\/?)([a-zA-Z]+)((?:\s+[\w-]+="[^"<]*")*)\s*(\/?)>/g,
  )) {
    if (close) expect(open.pop()).toBe(name);
    else if (!self) open.push(name!);
    const names = [...attributes!.matchAll(/([\w-]+)=/g)].map((match) => match[1]);
    expect(new Set(names).size, `${name} says an attribute twice`).toBe(names.length);
  }
  expect(open).toEqual([]);
  expect(svg.match(/</g)!.length).toBe(svg.match(/>/g)!.length);
  expect(svg.replaceAll(/&(amp|lt|gt|quot);/g, '')).not.toContain('&');
}
