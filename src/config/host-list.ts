/** A list of hosts as people write it: names, addresses and ranges of addresses such as 10.0.0.0/8. */
import { BlockList, isIP, isIPv4 } from 'node:net';

const NAME = /^[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?$/;

/** Whether the text is a name or an address, without a port. */
export const isHostName = (text: string): boolean => !text.includes('/') && isHostEntry(text);

/** Whether the text can be an entry of a HostList. */
export function isHostEntry(text: string): boolean {
  const { address, bits } = partsOf(text);
  if (bits === undefined) return isIP(address) > 0 || NAME.test(address);
  const most = isIPv4(address) ? 32 : 128;
  return isIP(address) > 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= most;
}

/** Matches host names exactly, and addresses by their ranges. */
export class HostList {
  readonly #names = new Set<string>();
  readonly #ranges = new BlockList();

  /** Every entry has to pass `isHostEntry`. */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const { address, bits } = partsOf(entry);
      const family = familyOf(address);
      if (family === undefined) this.#names.add(address);
      else this.#ranges.addSubnet(address, Number(bits ?? (family === 'ipv4' ? 32 : 128)), family);
    }
  }

  /** `host` is the host name of a URL; an IPv6 address may stand in brackets. */
  has(host: string): boolean {
    const { address } = partsOf(host);
    const family = familyOf(address);
    return family === undefined ? this.#names.has(address) : this.#ranges.check(address, family);
  }
}

function partsOf(text: string): { readonly address: string; readonly bits: string | undefined } {
  const [host = '', bits, ...more] = text.toLowerCase().split('/');
  // The root dot of a full domain name: `gpu.example.` is the host `gpu.example`.
  const address = host.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  return { address, bits: more.length > 0 ? '' : bits };
}

function familyOf(address: string): 'ipv4' | 'ipv6' | undefined {
  const version = isIP(address);
  return version === 0 ? undefined : version === 4 ? 'ipv4' : 'ipv6';
}
