// nvidia-smi, where there is none.
import { writeFileSync } from 'node:fs';
import type { Workplace } from './cli.ts';

/** A PATH on which the tool of NVIDIA's driver comes first; it says of which GPU it was asked. */
export function pathWithTool(place: Workplace): string {
  writeFileSync(place.path('nvidia-smi'), '#!/bin/sh\n[ "$1" = -i ] && echo "GPU $2" || echo "the first GPU"\n', {
    mode: 0o755,
  });
  return `${place.folder}:${process.env.PATH}`;
}
