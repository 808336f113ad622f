/**
 * The hosts that a tool may ask, as people list them: exact names and addresses, and all names below a domain, each with
 * a port or with the usual ones.
 */
import { isIP } from 'node:net';
import { isHostName } from '../../config/host-list.ts';
import { OrchdError } from '../../model/errors.ts';

export interface AllowedHost {
  /** `example.com`, `*.example.com` (the names below it, not itself) or an address; `example.com:8443` is this port alone. */
  readonly host: string;
  /** The host may have an address of a private network or of this machine. It has to be listed by its exact name. */
  readonly allowPrivate?: boolean;
}

/** `public`: only addresses of the public internet. `any`: private ones too. */
export type AllowedAddresses = 'public' | 'any';

export class AllowedHosts {
  /** By `name:port`. */
  readonly #exact = new Map<string, AllowedAddresses>();
  /** `.name:port`, with the dot before the name. */
  readonly #suffixes: string[] = [];

  /** Throws INVALID_PARAMS for an entry that is not valid. */
  constructor(hosts: readonly AllowedHost[]) {
    for (const { host, allowPrivate = false } of hosts) {
      const isPattern = host.startsWith('*.');
      const { listed, ports } = portsOf(isPattern ? host.slice(2) : host);
      const name = normalized(listed);
      if (!isHostName(name) || (isPattern && (isIP(name) > 0 || !name.includes('.'))))
        throw invalid(
          `"${host.slice(0, 200)}" is no host: use example.com, *.example.com or example.com:8443`,
        );
      if (isPattern && allowPrivate)
        throw invalid(`"${host}": private addresses can be allowed for an exact host only`);
      for (const port of ports) {
        if (isPattern) this.#suffixes.push(`.${name}:${port}`);
        else this.#exact.set(`${name}:${port}`, allowPrivate ? 'any' : 'public');
      }
    }
  }

  get isEmpty(): boolean {
    return this.#exact.size + this.#suffixes.length === 0;
  }

  /** The addresses that the host may have; undefined for a host that is not listed, or not with this port. */
  addressesOf(hostname: string, port: number): AllowedAddresses | undefined {
    const host = `${normalized(hostname)}:${port}`;
    const exact = this.#exact.get(host);
    if (exact) return exact;
    return this.#suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
      ? 'public'
      : undefined;
  }
}

/** The ports of an entry without one: those of http and https. */
const USUAL_PORTS: readonly number[] = [80, 443];
const WITH_PORT = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/;
const MAX_PORT = 65_535;

function portsOf(entry: string): { readonly listed: string; readonly ports: readonly number[] } {
  const [, listed, port] = WITH_PORT.exec(entry) ?? [];
  if (listed === undefined) return { listed: entry, ports: USUAL_PORTS };
  if (Number(port) < 1 || Number(port) > MAX_PORT)
    throw invalid(`"${entry.slice(0, 200)}" has no usable port`);
  return { listed, ports: [Number(port)] };
}

/** Host names of URLs are in lower case; they may end in a dot, and IPv6 addresses are in brackets. */
export const normalized = (host: string): string =>
  host
    .toLowerCase()
    .replace(/\.$/, '')
    .replace(/^\[(.*)\]$/, '$1');

const invalid = (message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field: 'hosts' });
