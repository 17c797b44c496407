// Demangles the names of C++ functions with the C++ library, which our libraries need too.
import { lazily } from '../base/lazily.ts';
import { loadShared } from './koffi.ts';

const library = process.platform === 'darwin' ? '/usr/lib/libc++abi.dylib' : 'libstdc++.so.6';

const demangle = lazily(() => loadShared(library).func('__cxa_demangle', 'str', ['str', 'void *', 'void *', 'void *']));

/** "add(float*, int)" of "_Z3addPfi"; a name that is not mangled stays. */
export const demangled = (name: string): string => (demangle()(name, null, null, null) as string | null) ?? name;
