/** The addresses of upstreams, as people write them. Without a schema, which would take long to load. */

export type UpstreamBase =
  | { readonly url: string; readonly problem?: undefined }
  /** What is wrong with the address, for people. */
  | { readonly problem: string };

/** Paths of single calls, which are no address of an API. */
const CALL_PATH = /\/(chat\/completions|completions|embeddings|models|api\/(generate|chat|tags))$/;

/** The base URL of an upstream without `/v1` or `/v1beta`, from an address with or without it. */
export function upstreamBase(text: string): UpstreamBase {
  const given = text.trim();
  const url = URL.parse(given);
  // `localhost:11434` parses as a URL with the scheme `localhost`.
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    const isBare = /^[A-Za-z0-9._-]+(:\d{1,5})?(\/[A-Za-z0-9._/-]*)?$/.test(given);
    const hint = isBare ? `: did you mean http://${given}?` : '';
    return { problem: `an address must begin with http:// or https://${hint}` };
  }
  if (url.username !== '' || url.password !== '')
    return {
      problem:
        'an address may not contain a user name or password: put the key into an environment variable, and name that with --upstream-key-env',
    };
  if (url.search !== '' || url.hash !== '')
    return { problem: 'an address may not contain a query or fragment' };
  const path = url.pathname.replace(/\/+$/, '');
  const call = CALL_PATH.exec(path);
  if (call) {
    const base = path.slice(0, call.index);
    return { problem: `give the address of the API, ${url.origin}${base}, without ${call[0]}` };
  }
  return { url: url.origin + path.replace(/\/v1(beta)?$/, '') };
}

/** The name of an upstream that has none: its host, port and path. */
export function upstreamName(base: string): string {
  const { hostname, port, pathname } = new URL(base);
  const words = [hostname.replace(/[[\]]/g, ''), port, ...pathname.split('/')].filter((word) => word !== '');
  return words
    .join('-')
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 64);
}
