/** Tells addresses of the public internet from those that lead into a private network, this machine or its cloud. */
import { BlockList, isIP } from 'node:net';

/** Ranges of IPv4 that are not public, from the registry of special purposes of IANA. */
const NOT_PUBLIC_V4: readonly [address: string, bits: number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  // Carrier-grade NAT; the metadata service of Alibaba is in it.
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  // Link-local; most clouds have their metadata service in it.
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  // The metadata service of Oracle is in it.
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  // Multicast, and all above it.
  ['224.0.0.0', 3],
  // The metadata service of Azure has an address of the public range.
  ['168.63.129.16', 32],
];

/** Parts of 2000::/3 that are not public, or contain an IPv4 address that may be private. */
const NOT_PUBLIC_V6: readonly [address: string, bits: number][] = [
  // Protocol assignments, Teredo among them.
  ['2001::', 23],
  ['2001:db8::', 32],
  // 6to4.
  ['2002::', 16],
  ['3fff::', 20],
];

const notPublic = new BlockList();
for (const [address, bits] of NOT_PUBLIC_V4) notPublic.addSubnet(address, bits, 'ipv4');
for (const [address, bits] of NOT_PUBLIC_V6) notPublic.addSubnet(address, bits, 'ipv6');

/**
 * The only public part of IPv6. Everything else is refused: loopback, link-local, unique local, multicast, and all forms
 * that carry an IPv4 address (`::ffff:127.0.0.1`, NAT64).
 */
const publicV6 = new BlockList();
publicV6.addSubnet('2000::', 3, 'ipv6');

/** False for a text that is no address, too. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 4) return !notPublic.check(address, 'ipv4');
  // A zone, as in `fe80::1%eth0`, names an interface of this machine.
  if (version !== 6 || address.includes('%')) return false;
  return publicV6.check(address, 'ipv6') && !notPublic.check(address, 'ipv6');
}
