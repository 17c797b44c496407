// Turns a status of the library other than GPT2_OK into an error.
import { NativeError } from '../errors.ts';
import { GPT2_STATUS } from './bindings.generated.ts';

/** @param text from `gpt2_last_error`; NativeError repeats the function name that it begins with */
export function failure(symbol: string, status: number, text: string): NativeError {
  const name = Object.entries(GPT2_STATUS).find(([, value]) => value === status)?.[0] ?? `status ${status}`;
  return new NativeError(symbol, name, text.replace(`${symbol}: `, ''));
}
