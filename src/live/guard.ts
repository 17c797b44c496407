// Which requests are answered at all. The page shows a run to whoever sits at this machine; a page of some other site that is
// open in the same browser must neither read it nor keep its connections.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';

/** Why a request is not answered, as HTTP says it. */
export interface Refusal {
  readonly status: 400 | 403 | 404 | 405 | 414 | 421 | 503;
  readonly text: string;
}

const longestUrl = 256;

/** Names of this machine to itself. */
const ownNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Whether only this machine can reach what listens there. */
export const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127\./.test(host);

/**
 * @param served the address that the server listens at
 * @param routes the only URLs there are, compared as they come: nothing of a URL is ever taken apart
 */
export function refusalOf(
  { method, url = '', headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  served: string,
  routes: readonly string[],
): Refusal | undefined {
  const { host, origin } = headers;
  // A foreign name that resolves to this machine (DNS rebinding) makes a foreign page's requests same-origin to the browser.
  if (host === undefined || !isOwnName(host, served))
    return { status: 421, text: 'this is not the host you asked for' };
  if (origin !== undefined && origin !== `http://${host}`) return { status: 403, text: 'not for pages of other sites' };
  // A link from elsewhere to the page is fine; an image or a script element of another site's page sends no Origin.
  const site = headers['sec-fetch-site'];
  const isForeign = site !== undefined && site !== 'same-origin' && site !== 'none';
  if (isForeign && headers['sec-fetch-mode'] !== 'navigate')
    return { status: 403, text: 'not for pages of other sites' };
  if (method !== 'GET' && method !== 'HEAD') return { status: 405, text: 'this can only be read' };
  if (url.length > longestUrl) return { status: 414, text: 'there is no URL that long here' };
  if (!routes.includes(url)) return { status: 404, text: 'there is nothing here' };
  return undefined;
}

/**
 * The port may be another one: that of a tunnel. Where others may come, any address will do: it is no name that somebody else
 * could let resolve to this machine.
 */
function isOwnName(host: string, served: string): boolean {
  const name = host.toLowerCase().replace(/:\d{1,5}$/, '');
  if (ownNames.includes(name) || name === served.toLowerCase() || name === `[${served}]`) return true;
  if (isLoopback(served)) return false;
  return name === hostname().toLowerCase() || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0;
}
