/** What the configuration says about servers that others run, and about modules, as checked settings for a brain. */
import { type RemoteGateway, remoteGateways } from '../adapters/gateway/remote-settings.ts';
import { type GatewaySettings, gatewaySettings } from '../adapters/gateway/settings.ts';
import { type UpstreamSettings, upstreamSettings } from '../adapters/upstreams/settings.ts';
import { AGENT_BACKENDS } from '../agents/agents.ts';
import { configuredBackends } from '../backends/registry.ts';
import { spoolSettings } from '../backends/spool/settings.ts';
import type { SpoolConfig } from '../config/backends.ts';
import type { ResolvedConfig } from '../config/resolve.ts';
import type { UpstreamConfig } from '../config/upstreams.ts';

/** Where the server listens. */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

export interface OtherServerSettings {
  readonly spools: ReturnType<typeof spoolSettings>;
  readonly upstreams: readonly UpstreamSettings[];
  readonly gateway: GatewaySettings | undefined;
  readonly gateways: readonly RemoteGateway[];
}

/** Names of backends that the brain itself has. */
const ownNames = (config: ResolvedConfig): readonly string[] => [
  ...configuredBackends(config).map(({ name }) => name),
  ...AGENT_BACKENDS,
];

export const spoolsOf = (config: ResolvedConfig): OtherServerSettings['spools'] =>
  spoolSettings(config.backends.spools as readonly SpoolConfig[], ownNames(config));

export const upstreamsOf = (config: ResolvedConfig, address: ServerAddress): readonly UpstreamSettings[] =>
  upstreamSettings(config.backends.upstreams as readonly UpstreamConfig[], {
    ...address,
    variables: process.env,
    taken: [...ownNames(config), ...config.backends.spools.map(({ name }) => name)],
  });

/** `upstreams`: names of their backends. */
export const gatewayOf = (
  config: ResolvedConfig,
  upstreams: readonly string[],
): GatewaySettings | undefined =>
  gatewaySettings(config, {
    variables: process.env,
    taken: [...ownNames(config), ...config.backends.spools.map(({ name }) => name), ...upstreams],
  });

export const gatewaysOf = (config: ResolvedConfig): readonly RemoteGateway[] =>
  remoteGateways(config, { variables: process.env });

/** Throws CONFIG_INVALID about the first that cannot be used; its `field` is the key in the configuration. */
export function otherServers(config: ResolvedConfig, address: ServerAddress): OtherServerSettings {
  const spools = spoolsOf(config);
  const upstreams = upstreamsOf(config, address);
  const gateway = gatewayOf(
    config,
    upstreams.map(({ name }) => name),
  );
  return { spools, upstreams, gateway, gateways: gatewaysOf(config) };
}
