import { describeEveryOp } from './every-op.ts';

describeEveryOp('fp8');
