import { describeEveryOp } from './every-op.ts';

describeEveryOp('tf32');
