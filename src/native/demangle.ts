// Demangles the names of C++ functions with the C++ library, which our libraries need too.
import { loadShared } from './koffi.ts';

const library = process.platform === 'darwin' ? '/usr/lib/libc++abi.dylib' : 'libstdc++.so.6';

let bound: ((name: string) => string | null) | undefined;

/** "add(float*, int)" of "_Z3addPfi"; a name that is not mangled stays. */
export function demangled(name: string): string {
  if (!bound) {
    const call = loadShared(library).func('__cxa_demangle', 'str', ['str', 'void *', 'void *', 'void *']);
    bound = (mangled) => call(mangled, null, null, null) as string | null;
  }
  return bound(name) ?? name;
}
