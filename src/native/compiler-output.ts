// What a compiler of CUDA makes. The package's types have it, so this file has none of Node's.

/** A cubin; PTX; or the text that the compiler prints. */
export type CompilerOutput = 'cubin' | 'ptx' | 'log';
