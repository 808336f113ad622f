/** The small text forms that configuration values may have: a bind address, a URL, a list with commas. */
import { isIPv6 } from 'node:net';

export interface BindAddress {
  readonly host: string;
  readonly port: number;
}

/** Reads `host:port`; an IPv6 host stands in brackets, as in a URL. */
export function parseBindAddress(text: string): BindAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(text);
  if (match === null) return undefined;
  const [, bracketed, plain, digits] = match;
  const port = Number(digits);
  if (port > 65_535) return undefined;
  if (bracketed !== undefined && !isIPv6(bracketed)) return undefined;
  return { host: bracketed ?? plain!, port };
}

/** User name and password are refused because URLs end up in logs and on screens. */
export function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null) return false;
  return /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}

/**
 * Whether a browser may send this as the header Origin, with which it is compared: in lower case, without a path, a slash
 * at the end or the usual port. Pages of programs have schemes of their own, such as `tauri://localhost`.
 */
export function isOrigin(text: string): boolean {
  const url = URL.parse(text);
  if (url === null) return false;
  if (!/^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/.test(text)) return false;
  return !/^https?:$/.test(url.protocol) || url.origin === text;
}

/** Names a database, on a host or by a socket of this machine. */
export function isMariaDbUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^(mariadb|mysql):$/.test(url.protocol) && url.pathname.length > 1;
}

/** Names a Redis server, with the number of its database as the path, if it is not 0. */
export function isRedisUrl(text: string): boolean {
  const url = URL.parse(text);
  return (
    url !== null &&
    /^rediss?:$/.test(url.protocol) &&
    url.hostname !== '' &&
    /^(\/\d{0,4})?$/.test(url.pathname)
  );
}

/** Items of a list that may be written as YAML or as one text with commas; empty items are dropped. */
export function splitList(value: string | readonly string[]): string[] {
  const items = typeof value === 'string' ? value.split(',') : value;
  return items.map((item) => item.trim()).filter((item) => item !== '');
}

/** Whether only this machine can reach it. */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
