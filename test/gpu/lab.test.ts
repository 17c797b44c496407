// The kernel lab on a GPU: kernels are tested, timed, and used in training; one that breaks the device is named.
import { describeCuda } from '../support/backends.ts';
import { testsOfLab } from '../support/lab.ts';

describeCuda('the kernel lab', () => testsOfLab('cuda'));
