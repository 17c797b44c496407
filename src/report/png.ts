// Renders an SVG figure (svg.ts) as PNG. Only this file needs @resvg/resvg-js, an optional package.
import { Gpt2Error, gpt2Error } from '../base/errors.ts';

/** Pixels per unit of the SVG: about 300 per inch when printed at the width of a journal's column. */
const scale = 2;

/** @returns the PNG file's bytes @throws Gpt2Error if the package is not installed, or the machine has no font */
export async function renderPng(svg: string): Promise<Buffer> {
  const { Resvg } = await import('@resvg/resvg-js').catch((cause: unknown) => {
    const what = 'PNG needs a package that is not installed';
    throw new Gpt2Error(`${what}: npm install @resvg/resvg-js, or name an .svg file`, { cause });
  });
  const font = { loadSystemFonts: true, defaultFontFamily: 'DejaVu Sans' };
  // Check for a font first, because without one the package silently leaves out all text.
  const letter =
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text y="9" font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif">a</text></svg>';
  if (!new Resvg(letter, { font }).getBBox()) {
    throw gpt2Error`PNG needs a font, and this machine has none: install one (fonts-dejavu-core), or name an .svg file`;
  }
  return new Resvg(svg, { font, fitTo: { mode: 'zoom', value: scale } }).render().asPng();
}
