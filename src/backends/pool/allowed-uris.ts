/** The addresses at which the workers of a pool may be. */

/** Whether a worker of a pool may be called at this URI. */
export type IsAllowedUri = (uri: string) => boolean;

/** Allows plain http(s) URIs on the host of the pool manager itself and on the configured hosts. */
export function allowUris(poolUrl: string, allowedHosts: readonly string[]): IsAllowedUri {
  const own = new URL(poolUrl).hostname;
  const hosts = new Set([own, ...allowedHosts]);
  if (LOOPBACK.has(own)) for (const host of LOOPBACK) hosts.add(host);
  return (uri) => {
    if (!URL.canParse(uri)) return false;
    const { protocol, username, password, hostname, search, hash } = new URL(uri);
    const isPlain = username === '' && password === '' && search === '' && hash === '';
    return (protocol === 'http:' || protocol === 'https:') && isPlain && hosts.has(hostname);
  };
}

const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '[::1]']);
