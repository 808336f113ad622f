/**
 * The kinds of backend that can be configured, by their key in the `backends` section of the configuration. To add a
 * kind: a folder beside these with a descriptor, one line here, its key in config/backends.ts and config.example.yaml,
 * and a harness for the conformance suite in test/backends/.
 */
import type { ResolvedConfig } from '../config/resolve.ts';
import type { BackendKind, ConfiguredBackend } from './descriptor.ts';
import { commands, demo } from './local/command/descriptor.ts';

/** These change while the brain runs: a source brings their backends (adapters/upstreams, adapters/gateway, spool/). */
type BackendsConfig = Omit<ResolvedConfig['backends'], 'upstreams' | 'gateways' | 'spools'>;

export const BACKEND_KINDS: { readonly [K in keyof BackendsConfig]: BackendKind<BackendsConfig[K]> } = {
  commands,
  demo,
};

export function configuredBackends(config: ResolvedConfig): readonly ConfiguredBackend[] {
  const { backends } = config;
  // The demo model would only answer in place of the real models of other servers.
  const isUsed = (key: keyof BackendsConfig): boolean => key !== 'demo' || !hasOtherServers(config);
  const keys = Object.keys(BACKEND_KINDS) as (keyof BackendsConfig)[];
  return keys.filter(isUsed).flatMap((key) => BACKEND_KINDS[key](backends[key] as never));
}

/** Whether models come from other servers: upstreams, or the seats of gateways. */
export const hasOtherServers = ({ backends, gateway, pool }: ResolvedConfig): boolean =>
  backends.upstreams.length > 0 ||
  backends.gateways.length > 0 ||
  gateway.seats.length > 0 ||
  pool.url !== undefined;
