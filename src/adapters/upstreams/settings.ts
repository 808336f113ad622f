/** The upstreams of a server: from the configuration and the command line to checked settings with their keys. */
import { hostname as machineName, networkInterfaces } from 'node:os';
import { isLoopbackHost } from '../../config/address.ts';
import { upstreamBase, upstreamName } from '../../config/upstream-address.ts';
import type { UpstreamConfig } from '../../config/upstreams.ts';
import type { Secret } from '../../kit/secret.ts';
import type { UpstreamOrder } from '../../model/upstream-wire.ts';
import { keyOf, refused } from '../executors/key.ts';

export interface UpstreamSettings {
  /** The name of its backend, and of its folder. */
  readonly name: string;
  /** The base URL without `/v1`. */
  readonly url: string;
  readonly key: Secret | undefined;
  /** Whether its answers cost money: then a call with an unknown outcome is held, and not made again. */
  readonly paid: boolean;
  readonly slots: number | undefined;
  readonly models: readonly string[] | undefined;
  readonly rename: Readonly<Record<string, string>> | undefined;
  readonly pollMs: number;
}

export interface UpstreamSurroundings {
  /** Environment variables, which hold the keys. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Where this server listens. */
  readonly host: string;
  readonly port: number;
  /** Names that other backends have. */
  readonly taken: readonly string[];
}

/** A free upstream is asked often, because it is near and may change at any time; a service has limits for requests. */
const FREE_POLL_MS = 5000;
const PAID_POLL_MS = 60_000;

/** Throws CONFIG_INVALID about the first one that cannot be used; its `field` is the key in the configuration. */
export function upstreamSettings(
  configured: readonly UpstreamConfig[],
  surroundings: UpstreamSurroundings,
): readonly UpstreamSettings[] {
  const found = new Map<string, UpstreamSettings>();
  for (const [at, config] of configured.entries()) {
    const field = `backends.upstreams[${at}]`;
    const settings = settingsOf(config, field, surroundings);
    const other = found.get(settings.name);
    if (other?.url === settings.url && config.name === undefined) continue;
    if (other || surroundings.taken.includes(settings.name))
      throw refused(
        field,
        `two backends would be called "${settings.name}": give ${settings.url} another name`,
      );
    found.set(settings.name, settings);
  }
  return [...found.values()];
}

/** What the executor is told; the key goes only there. */
export const orderOf = ({ url, key, slots, models, rename, pollMs }: UpstreamSettings): UpstreamOrder => ({
  url,
  ...(key && { key: key.reveal() }),
  ...(slots !== undefined && { slots }),
  ...(models && { models: [...models] }),
  ...(rename && { rename: { ...rename } }),
  poll_ms: pollMs,
});

function settingsOf(
  config: UpstreamConfig,
  field: string,
  surroundings: UpstreamSurroundings,
): UpstreamSettings {
  const { key_env, slots, models, rename, poll_sec } = config;
  const base = upstreamBase(config.url);
  if (base.problem !== undefined) throw refused(`${field}.url`, base.problem);
  const { url } = base;
  if (isOwnAddress(url, surroundings)) throw refused(`${field}.url`, `${url} is this server itself`);
  const key =
    key_env === undefined
      ? undefined
      : keyOf(surroundings.variables[key_env], `the variable ${key_env}`, url, `${field}.key_env`);
  const paid = config.paid ?? key !== undefined;
  return {
    name: config.name ?? upstreamName(url),
    url,
    key,
    paid,
    slots,
    models,
    rename,
    pollMs: poll_sec === undefined ? (paid ? PAID_POLL_MS : FREE_POLL_MS) : Math.round(poll_sec * 1000),
  };
}

/** Whether an address is the one at which this server listens. */
function isOwnAddress(base: string, { host, port }: UpstreamSurroundings): boolean {
  const url = new URL(base);
  const theirPort = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  // With port 0 the server takes a port that nobody could have named before.
  if (port === 0 || theirPort !== port) return false;
  const name = url.hostname.replace(/[[\]]/g, '');
  const isEverywhere = host === '0.0.0.0' || host === '::';
  if (name === host || (isLoopbackHost(name) && (isEverywhere || isLoopbackHost(host)))) return true;
  const own = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);
  return isEverywhere && (name === '0.0.0.0' || name === machineName().toLowerCase() || own.includes(name));
}
