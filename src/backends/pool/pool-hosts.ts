/**
 * Decides at which hosts a pool manager may register, and to which addresses the brain connects for it: who registers a
 * pool makes the brain send requests there, and later prompts.
 */
import { HostList } from '../../config/host-list.ts';
import { OrchdError } from '../../model/errors.ts';
import { type Address, systemResolve } from '../../wire/outbound.ts';

const LOOPBACK = ['localhost', '127.0.0.0/8', '::1'];

/**
 * Addresses at which no pool manager is, but services that trust whoever can reach them: those of the metadata of cloud
 * machines, link-local, unspecified and multicast ones. A name that resolves to one of them is not connected to.
 */
const NEVER = new HostList([
  '0.0.0.0/8',
  '169.254.0.0/16',
  '100.100.100.200',
  '192.0.0.192',
  '224.0.0.0/3',
  '::',
  'fe80::/10',
  'ff00::/8',
  'fd00:ec2::254',
  'fd20:ce::254',
]);

type Resolve = (host: string) => Promise<readonly Address[]>;

export class PoolHosts {
  readonly #allowed: HostList;
  readonly #resolve: Resolve;

  /** `hosts` are allowed beside the loopback addresses. */
  constructor(hosts: readonly string[], resolve: Resolve = systemResolve) {
    this.#allowed = new HostList([...LOOPBACK, ...hosts]);
    this.#resolve = resolve;
  }

  /** Throws if no pool may register at this URL. */
  check(url: string): void {
    const host = URL.parse(url)?.hostname ?? '';
    if (this.#allowed.has(host)) return;
    throw new OrchdError(
      'FORBIDDEN',
      `no pool may register at the host "${host.slice(0, 200)}": add it to pools.allowed_hosts of the brain, as a name, an address or a range of addresses`,
      { reason: 'pool_host' },
    );
  }

  /** Resolves a host name to the addresses that may be connected to: an allowed name may still resolve to a forbidden one. */
  async resolve(host: string): Promise<readonly Address[]> {
    const found = await this.#resolve(host);
    return found.filter(({ address }) => this.#allowed.has(address) || !NEVER.has(address));
  }
}
