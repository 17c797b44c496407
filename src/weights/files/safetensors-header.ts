// Checks the header of a safetensors file before anything else is read: every tensor is inside the file, without gaps or
// overlaps, and has as many bytes as its shape needs.
import * as z from 'zod';
import { quote } from '../../base/errors.ts';
import { decodeUtf8, parseJson } from '../../base/files/strict-text.ts';
import { elementCount } from '../../native/element-types.ts';

/** Limit of a header: the largest that train writes, for the moments of 1,000 layers, has 2.4 MB. Parsing 8 MB takes 120 MB of memory. */
export const largestHeaderBytes = 8_000_000;
/** Bytes per element, for the element types that can be read; types of one byte are for masks only. */
export const elementBytes: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2, U8: 1, BOOL: 1 };

/** A tensor in the header; `from` and `to` are bytes from the end of the header. */
export interface TensorEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly from: number;
  readonly to: number;
}

const count = z.int().nonnegative();
const entrySchema = z.object({
  dtype: z.string(),
  shape: z.array(count).max(16),
  data_offsets: z.tuple([count, count]),
});

/** Throws an error with the reason why a file cannot be read. */
type Refuse = (what: string) => never;

/** The tensors of a header, by name. @param dataBytes bytes after the header */
export function parseHeader(text: Buffer, dataBytes: number, refuse: Refuse): Map<string, TensorEntry> {
  const entries = new Map<string, TensorEntry>();
  for (const [name, value] of Object.entries(parseObject(text, refuse))) {
    if (name === '__metadata__') continue;
    const result = entrySchema.safeParse(value);
    if (!result.success) return refuse(`the entry of ${quote(name)} is malformed`);
    const { dtype, shape, data_offsets } = result.data;
    const [from, to] = data_offsets;
    if (from > to || to > dataBytes) return refuse(`${quote(name)} is at ${from} to ${to} of ${dataBytes} bytes`);
    if (Object.hasOwn(elementBytes, dtype) && elementCount(shape) * elementBytes[dtype]! !== to - from) {
      return refuse(`${quote(name)} [${shape}] has ${to - from} bytes`);
    }
    entries.set(name, { dtype, shape, from, to });
  }
  checkSpans(entries, dataBytes, refuse);
  return entries;
}

function parseObject(text: Buffer, refuse: Refuse): object {
  let parsed: unknown;
  try {
    parsed = parseJson(decodeUtf8(text));
  } catch (cause) {
    return refuse(`its header is not JSON: ${(cause as Error).message}`);
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    return refuse('its header is not a JSON object');
  }
  return parsed;
}

/** Checks that every byte of data belongs to exactly one tensor. */
function checkSpans(entries: Map<string, TensorEntry>, dataBytes: number, refuse: Refuse): void {
  // Among tensors with the same start, empty ones come first.
  const spans = [...entries].sort(([, a], [, b]) => a.from - b.from || a.to - b.to);
  let end = 0;
  for (const [name, { from, to }] of spans) {
    if (from < end) refuse(`${quote(name)} overlaps the tensor before it`);
    if (from > end) refuse(`${from - end} bytes before ${quote(name)} belong to no tensor`);
    end = to;
  }
  if (end !== dataBytes) refuse(`${dataBytes - end} bytes at its end belong to no tensor`);
}
