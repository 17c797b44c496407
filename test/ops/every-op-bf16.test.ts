import { describeEveryOp } from './every-op.ts';

describeEveryOp('bf16');
