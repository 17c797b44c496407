// The outputs of a CUDA compiler. The package's types contain this type, so this file must not use types of Node.

/** A cubin; PTX; or the text that the compiler prints. */
export type CompilerOutput = 'cubin' | 'ptx' | 'log';
