/** The hosts that a tool may ask, as people list them: exact names and addresses, and all names below a domain. */
import { isIP } from 'node:net';
import { isHostName } from '../../config/host-list.ts';
import { OrchdError } from '../../model/errors.ts';

export interface AllowedHost {
  /** `example.com`, `*.example.com` (the names below it, not itself) or an address. */
  readonly host: string;
  /** The host may have an address of a private network or of this machine. It has to be listed by its exact name. */
  readonly allowPrivate?: boolean;
}

/** `public`: only addresses of the public internet. `any`: private ones too. */
export type AllowedAddresses = 'public' | 'any';

export class AllowedHosts {
  readonly #exact = new Map<string, AllowedAddresses>();
  /** With the dot before them. */
  readonly #suffixes: string[] = [];

  /** Throws INVALID_PARAMS for an entry that is not valid. */
  constructor(hosts: readonly AllowedHost[]) {
    for (const { host, allowPrivate = false } of hosts) {
      const isPattern = host.startsWith('*.');
      const name = normalized(isPattern ? host.slice(2) : host);
      if (!isHostName(name) || (isPattern && (isIP(name) > 0 || !name.includes('.'))))
        throw invalid(`"${host.slice(0, 200)}" is no host: use example.com or *.example.com`);
      if (isPattern && allowPrivate)
        throw invalid(`"${host}": private addresses can be allowed for an exact host only`);
      if (isPattern) this.#suffixes.push(`.${name}`);
      else this.#exact.set(name, allowPrivate ? 'any' : 'public');
    }
  }

  get isEmpty(): boolean {
    return this.#exact.size + this.#suffixes.length === 0;
  }

  /** The addresses that the host may have; undefined for a host that is not listed. */
  addressesOf(hostname: string): AllowedAddresses | undefined {
    const host = normalized(hostname);
    const exact = this.#exact.get(host);
    if (exact) return exact;
    return this.#suffixes.some((suffix) => host.endsWith(suffix) && host.length > suffix.length)
      ? 'public'
      : undefined;
  }
}

/** Host names of URLs are in lower case; they may end in a dot, and IPv6 addresses are in brackets. */
export const normalized = (host: string): string =>
  host
    .toLowerCase()
    .replace(/\.$/, '')
    .replace(/^\[(.*)\]$/, '$1');

const invalid = (message: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', message, { field: 'hosts' });
