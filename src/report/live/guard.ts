// Decides which requests are answered. The page shows a run to the users of this machine; another site's page that is open in
// the same browser must neither read it nor hold its connections.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';

const longestUrl = 256;

const ownNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Whether only this machine can reach an address. */
export const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127\./.test(host);

/**
 * @param served the address that the server listens at
 * @param routes the only valid URLs; they are compared as text, and no URL is ever parsed
 */
export function refusalOf(
  { method, url = '', headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  served: string,
  routes: readonly string[],
): { readonly status: number; readonly text: string } | undefined {
  const { host, origin } = headers;
  // With DNS rebinding, a foreign name resolves to this machine, and the browser treats a foreign page's requests as same-origin.
  if (!isOwnName(host ?? '', served)) return { status: 421, text: 'this is not the host you asked for' };
  // A link from another site is allowed; image and script elements of other sites send no Origin.
  const { 'sec-fetch-site': site = 'none', 'sec-fetch-mode': mode } = headers;
  const isForeign = !['same-origin', 'none'].includes(site as string) && mode !== 'navigate';
  if (isForeign || (origin !== undefined && origin !== `http://${host}`))
    return { status: 403, text: 'not for pages of other sites' };
  if (method !== 'GET' && method !== 'HEAD') return { status: 405, text: 'this can only be read' };
  if (url.length > longestUrl) return { status: 414, text: 'there is no URL that long here' };
  if (!routes.includes(url)) return { status: 404, text: 'there is nothing here' };
  return undefined;
}

/**
 * The port may differ, because a tunnel has another port. A server for other machines accepts any numeric address: no foreign
 * name is involved.
 */
function isOwnName(host: string, served: string): boolean {
  const name = host.toLowerCase().replace(/:\d{1,5}$/, '');
  if (ownNames.includes(name) || name === served.toLowerCase() || name === `[${served}]`) return true;
  if (isLoopback(served)) return false;
  return name === hostname().toLowerCase() || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0;
}
