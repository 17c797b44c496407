// An optimizer that changes no weight: it adds each gradient to its one state row. It shows that an optimizer needs no edit of
// the program. For the CPU library only, where `enqueue` runs when it is called.
import { everyParameter, type Selection } from '../../src/model/arena.ts';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { residualForward } from '../../src/ops/ops.generated.ts';
import type { Optimizer, StateRow, UpdateContext, UpdatePart } from '../../src/optimizer/optimizer.ts';

export class GradientSum implements Optimizer {
  readonly name = 'gradient sum';
  readonly rows: readonly StateRow[];
  readonly scalars = [{ name: 'updates', at: (step: number) => step + 1 }];
  /** The scalar of each call of `enqueue`, as the device has it. */
  readonly seen: number[] = [];

  constructor(parameters: Selection = everyParameter) {
    this.rows = [{ name: 'sum', dtype: 'fp32', parameters, granularity: 'element' }];
  }

  enqueue({ device, step, scalar }: UpdateContext, parts: readonly UpdatePart[]): void {
    const block = step.read() as Float32Array;
    this.seen.push(block[scalar('updates')]!);
    if (block[GPT2_STEP.GPT2_STEP_UPDATED] === 0) return;
    for (const { gradient, state } of parts) {
      if (state.sum) residualForward(device, { out: state.sum, a: state.sum, b: gradient });
    }
  }
}
