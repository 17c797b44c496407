import { speakFlags } from '../../src/base/wording.ts';

// What every test file starts with: programs that tests start colour their output as if nobody had asked for it.
delete process.env.FORCE_COLOR;
// Most tests are of the command line's messages.
speakFlags();
