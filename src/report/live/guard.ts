// Decides which HTTP requests the live page's server answers. Any user of this machine may read the live page. Pages of other sites in
// the same browser must neither read the live page nor occupy the server's connections.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { hostname } from 'node:os';

const longestUrl = 256;

const ownNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

/** Whether an address can be reached only from this machine. */
export const isLoopback = (host: string): boolean => host === 'localhost' || host === '::1' || /^127\./.test(host);

/**
 * The answer that refuses a request, as status and text; undefined for a permitted request.
 * @param served the address at which the server listens @param routes the valid URLs, compared as text: no URL is parsed
 */
export function refusalOf(
  { method, url = '', headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  served: string,
  routes: readonly string[],
): { readonly status: number; readonly text: string } | undefined {
  const { host, origin } = headers;
  // Prevent DNS rebinding: if a site's name resolves to this machine, the browser takes the site's pages for pages of this server.
  if (!isOwnName(host ?? '', served)) return { status: 421, text: 'this is not the host you asked for' };
  // Check Sec-Fetch-Site too: images and scripts in pages of other sites send no Origin. A followed link ('navigate') is permitted.
  const { 'sec-fetch-site': site = 'none', 'sec-fetch-mode': mode } = headers;
  const isForeign = !['same-origin', 'none'].includes(site as string) && mode !== 'navigate';
  if (isForeign || (origin !== undefined && origin !== `http://${host}`))
    return { status: 403, text: 'not for pages of other sites' };
  if (method !== 'GET' && method !== 'HEAD') return { status: 405, text: 'this can only be read' };
  if (url.length > longestUrl) return { status: 414, text: 'there is no URL that long here' };
  if (!routes.includes(url)) return { status: 404, text: 'there is nothing here' };
  return undefined;
}

/** Whether a Host header names this server, at any port (as in a tunnel). If other machines can connect, any IP address counts. */
function isOwnName(host: string, served: string): boolean {
  const name = host.toLowerCase().replace(/:\d{1,5}$/, '');
  if (ownNames.includes(name) || name === served.toLowerCase() || name === `[${served}]`) return true;
  if (isLoopback(served)) return false;
  return name === hostname().toLowerCase() || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0;
}
