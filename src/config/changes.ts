/**
 * Compares two configurations: what a running server can take over, and what only a restart can. Pure; the values are
 * those of the file and the environment, so that settings are named as people write them.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ReloadSection, SectionChanges } from '../model/http/reload.ts';
import { CONFIG_LEAVES, valueAt } from './leaves.ts';
import type { RawConfig } from './schema.ts';

export interface ConfigChanges {
  /** The sections in which something changes while the server runs. */
  readonly changes: readonly SectionChanges[];
  /** Keys whose new value is used from the next start on, such as `orchestrator.queue_capacity`. */
  readonly restartNeeded: readonly string[];
  /** The configuration after the changes: the new values of what is taken over, and the old ones of all else. */
  readonly running: RawConfig;
}

interface Named {
  readonly name: string;
}

type Lists = Readonly<Record<ReloadSection, (config: RawConfig) => readonly Named[]>>;

/** The lists that can change while the server runs, by their paths. */
const LISTS: Lists = {
  'gateway.seats': ({ gateway }) => gateway.seats,
  'backends.gateways': ({ backends }) => backends.gateways,
  modules: ({ modules }) => modules,
  schedules: ({ schedules }) => schedules,
};

/** Used by the gateway process when it is started: they can change as long as there is none. */
const OWN_GATEWAY = ['gateway.bind_addr', 'gateway.allowed_hosts'];

export interface OutsideTheFile {
  /** Seats whose key has changed, although their entry has not. */
  readonly rekeyedSeats?: readonly string[];
  /** `pool.url` is in use: the brain has a gateway, and cannot run one of its own beside it. */
  readonly usesPoolUrl?: boolean;
  /** Whether `pool.url` is set in the new configuration, be it to its default. */
  readonly setsPoolUrl?: boolean;
}

export function configChanges(
  before: RawConfig,
  after: RawConfig,
  { rekeyedSeats = [], usesPoolUrl = false, setsPoolUrl = usesPoolUrl }: OutsideTheFile = {},
): ConfigChanges {
  const restartNeeded: string[] = [];
  const seats = usesPoolUrl
    ? undefined
    : compared('gateway.seats', before, after, (name) => rekeyedSeats.includes(name));
  const gateways = compared('backends.gateways', before, after);
  // Attempts are open at the old address: a gateway moves by an entry with another name.
  restartNeeded.push(...gateways.changed.map((name) => `backends.gateways.${name}`));
  const found = [
    ...(seats ? [seats] : []),
    { ...gateways, changed: [] },
    compared('modules', before, after),
    compared('schedules', before, after),
  ];
  const isFirstGateway = !usesPoolUrl && before.gateway.seats.length === 0 && after.gateway.seats.length > 0;
  for (const { path } of CONFIG_LEAVES) {
    const name = path.join('.');
    if (Object.hasOwn(LISTS, name) && !(name === 'gateway.seats' && usesPoolUrl)) continue;
    if (isFirstGateway && OWN_GATEWAY.includes(name)) continue;
    const isOther = !isDeepStrictEqual(valueAt(before, path), valueAt(after, path));
    if (isOther || (name === 'pool.url' && usesPoolUrl !== setsPoolUrl)) restartNeeded.push(name);
  }
  return {
    changes: found.filter(
      ({ added, changed, removed }) => added.length + changed.length + removed.length > 0,
    ),
    restartNeeded: restartNeeded.sort(),
    running: merged(before, after, { isFirstGateway, usesPoolUrl }),
  };
}

function compared(
  section: ReloadSection,
  before: RawConfig,
  after: RawConfig,
  isOther: (name: string) => boolean = () => false,
): SectionChanges {
  const old = new Map(LISTS[section](before).map((each) => [each.name, each]));
  const next = new Map(LISTS[section](after).map((each) => [each.name, each]));
  const kept = [...next.keys()].filter((name) => old.has(name));
  return {
    section,
    added: [...next.keys()].filter((name) => !old.has(name)),
    changed: kept.filter((name) => isOther(name) || !isDeepStrictEqual(old.get(name), next.get(name))),
    removed: [...old.keys()].filter((name) => !next.has(name)),
  };
}

function merged(
  before: RawConfig,
  after: RawConfig,
  { isFirstGateway, usesPoolUrl }: { readonly isFirstGateway: boolean; readonly usesPoolUrl: boolean },
): RawConfig {
  const known = new Map(before.backends.gateways.map((each) => [each.name, each]));
  const gateways = after.backends.gateways.map((each) => known.get(each.name) ?? each);
  const seats = usesPoolUrl ? before.gateway.seats : after.gateway.seats;
  return {
    ...before,
    gateway: isFirstGateway ? after.gateway : { ...before.gateway, seats },
    backends: { ...before.backends, gateways },
    modules: after.modules,
    schedules: after.schedules,
  };
}
