// The kinds of output of a CUDA compiler. The package's type declarations include this file, so it must not use types of Node.

/** A cubin, PTX, or the messages that the compiler prints. */
export type CompilerOutput = 'cubin' | 'ptx' | 'log';
