// nvidia-smi, where there is none.
import type { Workplace } from './cli.ts';

/** A PATH on which the tool of NVIDIA's driver comes first; it says of which GPU it was asked. */
export function pathWithTool(place: Workplace): string {
  place.script('nvidia-smi', '[ "$1" = -i ] && echo "GPU $2" || echo "the first GPU"');
  return `${place.folder}:${process.env.PATH}`;
}
