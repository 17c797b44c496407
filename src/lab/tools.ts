// Finds the programs of NVIDIA that the lab runs kernels under.
import { Gpt2Error } from '../errors.ts';
import { findTool } from '../native/nvrtc.ts';

const partOf = {
  ncu: 'it is part of Nsight Compute, which comes with the CUDA toolkit',
  'compute-sanitizer': 'it comes with the CUDA toolkit',
};

/** @returns its path @throws Gpt2Error if it is not installed */
export function labTool(name: keyof typeof partOf): string {
  const found = findTool(name);
  if (found !== undefined) return found;
  throw new Gpt2Error(`${name} is missing: ${partOf[name]}; install it, add its folder to PATH, or set CUDA_HOME`);
}
