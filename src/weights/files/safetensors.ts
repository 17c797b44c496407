// Reads and writes the safetensors format: u64 header length, a JSON header padded to 8 bytes (safetensors-header.ts), then the
// tensors.
import { createHash } from 'node:crypto';
import { fsyncSync, openSync, writeSync } from 'node:fs';
import { gpt2Error, quote } from '../../base/errors.ts';
import { fromBf16, fromFp16 } from '../../base/files/half-floats.ts';
import { closing, largestTransfer } from '../../base/files/regular-file.ts';
import type { Parameter } from '../../model/parameters.ts';
import { elementCount } from '../../native/element-types.ts';
import { storedShape, toStored } from './layout.ts';
import { elementBytes, largestHeaderBytes, parseHeader, type TensorEntry } from './safetensors-header.ts';
import { readerOf, StoredFile } from './stored-file.ts';
import { encodeWeights, type WeightType, weightTypes } from './weight-types.ts';

/** Writes values of parameters to a new safetensors file, by default in fp32. @throws as `writeSafetensors` */
export function writeTensors(path: string, values: readonly Values[], type?: WeightType) {
  const tensors = values.flatMap(({ prefix, parameters, read }) =>
    parameters.map((parameter) => ({
      name: `${prefix}${parameter.huggingFaceName}`,
      shape: storedShape(parameter),
      read: () => toStored(parameter, read(parameter)),
    })),
  );
  return writeSafetensors(path, tensors, type);
}

/** Values to write for some parameters: master weights, or a row of optimizer state. */
export interface Values {
  /** Prefix of the tensor names: "" for weights, "m." for the row m. */
  readonly prefix: string;
  readonly parameters: readonly Parameter[];
  /** A parameter's values in the device's layout, without padding rows. */
  read(parameter: Parameter): Float32Array;
}

export interface TensorToWrite {
  readonly name: string;
  readonly shape: readonly number[];
  /** Returns the values. It is called when this tensor is written; the values are released before the next tensor is read. */
  read(): Float32Array;
}

/**
 * Writes tensors, in order and rounded to `type`, to a new file, and syncs the file. The header's metadata is format "pt", which
 * transformers requires.
 * @throws the file system's error, with its code; the caller then removes the file
 */
export function writeSafetensors(path: string, tensors: readonly TensorToWrite[], type: WeightType = 'fp32') {
  const hash = createHash('sha256');
  let bytes = 0;
  closing(openSync(path, 'wx'), (file) => {
    const append = (part: Uint8Array) => {
      for (let done = 0; done < part.length; ) {
        const written = writeSync(file, part, done, Math.min(part.length - done, largestTransfer));
        hash.update(part.subarray(done, done + written));
        done += written;
      }
      bytes += part.length;
    };
    append(headerOf(tensors, weightTypes[type]));
    for (const { name, shape, read } of tensors) {
      const values = read();
      if (values.length !== elementCount(shape)) throw new Error(`${name} has ${values.length} values, not [${shape}]`);
      append(encodeWeights(values, type));
    }
    fsyncSync(file);
  });
  return { bytes, sha256: hash.digest('hex') };
}

function headerOf(
  tensors: readonly TensorToWrite[],
  { bytes, safetensors: dtype }: (typeof weightTypes)[WeightType],
): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let offset = 0;
  for (const { name, shape } of tensors) {
    if (Object.hasOwn(header, name)) throw new Error(`two tensors are called ${name}`);
    const end = offset + elementCount(shape) * bytes;
    header[name] = { dtype, shape, data_offsets: [offset, end] };
    offset = end;
  }
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.alloc(8 + Math.ceil(text.length / 8) * 8, ' ');
  padded.writeBigUInt64LE(BigInt(padded.length - 8));
  text.copy(padded, 8);
  return padded;
}

/** An open file; only its header is in memory. */
export type SafetensorsFile = ReturnType<typeof openSafetensors>;

/** Opens a file and checks its header against its size. @throws Gpt2Error naming the file, the tensor and the problem */
export const openSafetensors = (path: string) => readerOf(new StoredFile(path), reader);

function reader(file: StoredFile) {
  const { path } = file;
  const { entries, dataStart } = readHeader(file);
  const entry = (name: string): TensorEntry => {
    const found = entries.get(name);
    if (!found) throw gpt2Error`${path} has no tensor ${quote(name)}`;
    return found;
  };
  return {
    path,
    /** Names of the tensors, in the order of the header. */
    names: [...entries.keys()],
    /** The shape of a tensor. @throws Gpt2Error if the file has no such tensor */
    shape: (name: string): readonly number[] => entry(name).shape,
    /** Reads a tensor of fp32, fp16 or bf16 and converts it to fp32; a mask may also be of bytes. @throws Gpt2Error for another type */
    read(name: string, isMask = false): Float32Array {
      const { dtype, shape, from } = entry(name);
      const isByte = elementBytes[dtype] === 1;
      if (!Object.hasOwn(elementBytes, dtype) || (isByte && !isMask)) {
        const known = Object.keys(elementBytes)
          .filter((type) => elementBytes[type]! > 1)
          .join(', ');
        throw gpt2Error`${path}: ${quote(name)} is ${quote(dtype)}; only ${known} can be read, convert the file first`;
      }
      const count = elementCount(shape);
      const values = new { 1: Uint8Array, 2: Uint16Array, 4: Float32Array }[elementBytes[dtype] as 1 | 2 | 4](count);
      file.read(new Uint8Array(values.buffer), dataStart + from);
      if (values instanceof Float32Array) return values;
      if (values instanceof Uint8Array) return Float32Array.from(values);
      return dtype === 'BF16' ? fromBf16(values) : fromFp16(values);
    },
  };
}

function readHeader(file: StoredFile): { entries: Map<string, TensorEntry>; dataStart: number } {
  const refuse = (what: string): never => {
    throw gpt2Error`${file.path} is not a complete safetensors file: ${what}`;
  };
  const { bytes } = file;
  if (bytes < 8) return refuse(`it has ${bytes} bytes`);
  const start = file.read(Buffer.alloc(8), 0);
  if (start.toString('latin1') === 'version ') return refuse('it is a pointer of Git LFS; run `git lfs pull`');
  const headerBytes = Number(start.readBigUInt64LE());
  if (headerBytes > Math.min(bytes - 8, largestHeaderBytes)) {
    return refuse(`its header claims ${headerBytes} bytes; the file has ${bytes}, the limit is ${largestHeaderBytes}`);
  }
  const text = file.read(Buffer.alloc(headerBytes), 8);
  const dataStart = 8 + headerBytes;
  return { entries: parseHeader(text, bytes - dataStart, refuse), dataStart };
}
