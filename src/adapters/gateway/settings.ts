/** The gateway of a brain: from the configuration to checked settings with their keys. */
import { resolve } from 'node:path';
import { isLoopbackHost } from '../../config/address.ts';
import { driverOf, PAGE_DEFAULTS, PROVIDERS, SEAT_DEFAULTS, type SeatConfig } from '../../config/gateway.ts';
import type { ResolvedConfig } from '../../config/resolve.ts';
import { upstreamBase } from '../../config/upstream-address.ts';
import { diskErrorCode } from '../../kit/env/env.ts';
import { readSecretFile } from '../../kit/env/secret-file.ts';
import { Secret } from '../../kit/secret.ts';
import type { PageOrder, SeatOrder, SeatsOrder } from '../../model/gateway-wire.ts';
import { keyOf, refused } from '../executors/key.ts';

/** One account, as the gateway is told about it, with its key as a secret. */
export interface SeatSettings extends Omit<SeatOrder, 'key'> {
  readonly key: Secret | undefined;
}

/** The limits of `SeatsOrder`. */
const MAX_RESERVATION_MS = 3_600_000;

interface GatewayTimes {
  /** The longest time of one request. */
  readonly timeoutMs: number;
  /** How long a refused caller has the next turn on a seat. */
  readonly reservationMs: number;
}

/** A gateway that the brain runs itself. */
export interface OwnGateway extends GatewayTimes {
  readonly is: 'own';
  readonly host: string;
  readonly port: number;
  /** Names under which callers reach it, beside those of this machine. */
  readonly allowedHosts: readonly string[];
  readonly token: Secret | undefined;
  readonly seats: readonly SeatSettings[];
  /** Paths of keys that other users of the machine can read, for a warning. */
  readonly openKeyFiles: readonly string[];
}

/** A gateway that somebody else runs. */
export interface ForeignGateway extends GatewayTimes {
  readonly is: 'foreign';
  readonly url: string;
  readonly token: Secret | undefined;
}

export type GatewaySettings = OwnGateway | ForeignGateway;

export interface GatewaySurroundings {
  /** Environment variables, which hold keys and the token. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Names that other backends have. */
  readonly taken: readonly string[];
}

/** The gateway that a brain uses; undefined: none. Throws CONFIG_INVALID; its `field` is the key in the configuration. */
export function gatewaySettings(
  config: ResolvedConfig,
  surroundings: GatewaySurroundings,
): GatewaySettings | undefined {
  const { gateway, pool } = config;
  if (gateway.seats.length > 0) return ownGateway(config, surroundings);
  if (pool.url === undefined) return undefined;
  return { is: 'foreign', url: pool.url, token: tokenIn(surroundings), ...timesOf(config) };
}

/** The gateway with the seats of the configuration, for the brain or alone. Throws CONFIG_INVALID. */
export function ownGateway(config: ResolvedConfig, surroundings: GatewaySurroundings): OwnGateway {
  const { host, port, allowedHosts } = config.gateway;
  const token = tokenIn(surroundings);
  checkGatewayToken(host, token);
  const openKeyFiles: string[] = [];
  const seats = config.gateway.seats.map((seat, at) =>
    seatSettings(seat as SeatConfig, `gateway.seats[${at}]`, surroundings, openKeyFiles),
  );
  return { is: 'own', host, port, allowedHosts, token, seats, openKeyFiles, ...timesOf(config) };
}

/** Throws CONFIG_INVALID where callers from other machines would need no token. */
function checkGatewayToken(host: string, token: Secret | undefined): void {
  if (token || isLoopbackHost(host)) return;
  throw refused(
    'gateway.bind_addr',
    `${host} can be reached from other machines, so callers need a token: set ORCHD_GATEWAY_TOKEN`,
  );
}

/** What the gateway is told; the keys go only there. */
export const seatsOrder = ({ seats, reservationMs, timeoutMs }: OwnGateway): SeatsOrder => ({
  seats: seats.map(({ key, ...seat }) => ({ ...seat, ...(key && { key: key.reveal() }) })),
  reservation_ms: reservationMs,
  timeout_ms: timeoutMs,
});

const timesOf = ({ pool, scheduler }: ResolvedConfig): GatewayTimes => ({
  timeoutMs: pool.timeoutMs,
  reservationMs: Math.min(2 * scheduler.jitPollIntervalMs, MAX_RESERVATION_MS),
});

function tokenIn({ variables }: GatewaySurroundings): Secret | undefined {
  const value = variables['ORCHD_GATEWAY_TOKEN']?.trim() ?? '';
  return value === '' ? undefined : new Secret(value);
}

function seatSettings(
  seat: SeatConfig,
  field: string,
  surroundings: GatewaySurroundings,
  openKeyFiles: string[],
): SeatSettings {
  const { name, models, slots, keep, preempt } = seat;
  if (surroundings.taken.includes(name))
    throw refused(`${field}.name`, `another backend is called "${name}": rename the seat`);
  const url = seatUrl(seat, field);
  const key = seatKey(seat, url, field, surroundings, openKeyFiles);
  if (!key && seat.url === undefined) throw refused(field, `${url} wants a key: set key_env or key_file`);
  return {
    name,
    driver: driverOf(seat),
    url,
    key,
    slots: slots ?? SEAT_DEFAULTS.slots,
    models: Array.isArray(models) ? Object.fromEntries(models.map((model) => [model, model])) : { ...models },
    keep: keep ?? SEAT_DEFAULTS.keep,
    preempt: preempt ?? SEAT_DEFAULTS.preempt,
    ...(seat.selectors && { page: pageOrder(seat, seat.selectors) }),
  };
}

/** The URL of the provider's API; of a browser that of its page, as it is written. */
function seatUrl({ driver, url = PROVIDERS[driver].url ?? '' }: SeatConfig, field: string): string {
  if (driver === 'browser') return url;
  const base = upstreamBase(url);
  if (base.problem !== undefined) throw refused(`${field}.url`, base.problem);
  return base.url;
}

/** Paths count from the folder of this process: the gateway may run in another one. */
function pageOrder(seat: SeatConfig, selectors: PageOrder['selectors']): PageOrder {
  const { profile, executable, args, headless, stream } = seat;
  return {
    selectors,
    ...(profile !== undefined && { profile: resolve(profile) }),
    ...(executable !== undefined && { executable: resolve(executable) }),
    args: [...(args ?? PAGE_DEFAULTS.args)],
    headless: headless ?? PAGE_DEFAULTS.headless,
    stream: stream ?? PAGE_DEFAULTS.stream,
    load_timeout_ms: seat.load_timeout_ms ?? PAGE_DEFAULTS.load_timeout_ms,
    answer_timeout_ms: seat.answer_timeout_ms ?? PAGE_DEFAULTS.answer_timeout_ms,
    settle_ms: seat.settle_ms ?? PAGE_DEFAULTS.settle_ms,
  };
}

function seatKey(
  { key_env, key_file }: SeatConfig,
  url: string,
  field: string,
  { variables }: GatewaySurroundings,
  openKeyFiles: string[],
): Secret | undefined {
  if (key_env !== undefined)
    return keyOf(variables[key_env], `the variable ${key_env}`, url, `${field}.key_env`);
  if (key_file === undefined) return undefined;
  const { text, isOpenToOthers } = keyFile(key_file, `${field}.key_file`);
  if (isOpenToOthers) openKeyFiles.push(key_file);
  return keyOf(text, `the file ${key_file}`, url, `${field}.key_file`);
}

function keyFile(path: string, field: string): ReturnType<typeof readSecretFile> {
  try {
    return readSecretFile(path);
  } catch (error) {
    const code = diskErrorCode(error);
    if (code === undefined) throw error;
    throw refused(field, `the file ${path} cannot be read (${code})`);
  }
}
