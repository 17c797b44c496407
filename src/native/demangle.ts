// Demangles names of C++ functions with the C++ run-time library, which is present because the native libraries need it.
import { lazily } from '../base/lazily.ts';
import { loadShared } from './koffi.ts';

const library = process.platform === 'darwin' ? '/usr/lib/libc++abi.dylib' : 'libstdc++.so.6';

const demangle = lazily(() => loadShared(library).func('__cxa_demangle', 'str', ['str', 'void *', 'void *', 'void *']));

/** Demangles a name: "_Z3addPfi" becomes "add(float*, int)". A name that is not mangled is returned unchanged. */
export const demangled = (name: string): string => (demangle()(name, null, null, null) as string | null) ?? name;
