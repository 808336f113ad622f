/** Reads of what was spent: sums of charges, and the charges themselves. Everything durable when asked is in the answer. */
import type { Engine } from '../core/engine/engine.ts';
import {
  byGroup,
  COUNTS,
  exact,
  LEDGER_FIELDS,
  type LedgerCounts,
  type LedgerKey,
  type LedgerPlace,
  type LedgerSum,
  type LedgerWindow,
  TAG_PREFIX,
} from '../core/ports/ledger.ts';
import type { Store } from '../core/ports/store.ts';
import { parseInstant } from '../kit/instant.ts';
import { nearest } from '../kit/nearest.ts';
import { dateOf, dayStart, isTimeZone, windowAt } from '../kit/window.ts';
import type { Charge } from '../model/charge.ts';
import { OrchdError } from '../model/errors.ts';
import type { LedgerQuery, UsageQuery } from '../model/http/usage.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Loop } from './loop.ts';

export interface UsageParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Store;
  readonly clock: BrainClock;
}

/** Groups of one answer, at most: more of them would be no overview, and take too long to send. */
export const MAX_GROUPS = 10_000;
/** Days of one answer that is grouped by days, at most: each is a question of its own. */
const MAX_DAYS = 400;
const MAX_KEYS = 4;
/** Charges that are read and sent at once. */
const PAGE_CHARGES = 500;

const DAY = 'day';
const KEY_NAMES = [DAY, ...LEDGER_FIELDS, 'tag:NAME'];

export interface UsageSums {
  readonly window: LedgerWindow;
  readonly timeZone: string;
  readonly by: readonly string[];
  /** In the order of `by` and of their values. */
  readonly sums: readonly LedgerSum[];
}

export class UsageReads {
  readonly #parts: UsageParts;

  constructor(parts: UsageParts) {
    this.#parts = parts;
  }

  /** `tenant`: that of the caller; undefined for the operator, who sees all tenants. */
  async sums(query: UsageQuery, tenant: string | undefined): Promise<UsageSums> {
    const by = keysIn(query.by);
    const { window, timeZone } = this.#windowOf(query, tenant);
    await this.#durable();
    const sums = by.includes(DAY)
      ? await this.#byDay(window, by, timeZone)
      : await this.#parts.store.ledger.sums(window, by as LedgerKey[], MAX_GROUPS);
    return { window, timeZone, by, sums };
  }

  /** Yields the charges of a time in the order of their settlement, page by page. */
  async *ledger(query: LedgerQuery, tenant: string | undefined): AsyncGenerator<readonly Charge[]> {
    const { window } = this.#windowOf(query, tenant);
    let after = query.after === undefined ? undefined : placeIn(query.after);
    await this.#durable();
    for (;;) {
      const page = await this.#parts.store.ledger.page(window, after, PAGE_CHARGES);
      if (page.length > 0) yield page;
      after = page.at(-1);
      if (page.length < PAGE_CHARGES) return;
    }
  }

  async #byDay(window: LedgerWindow, by: readonly string[], timeZone: string): Promise<LedgerSum[]> {
    const place = by.indexOf(DAY);
    const others = by.filter((key) => key !== DAY) as LedgerKey[];
    const sums: LedgerSum[] = [];
    for (const { date, ...day } of daysOf(window, timeZone)) {
      const left = MAX_GROUPS - sums.length;
      for (const sum of await this.#parts.store.ledger.sums({ ...window, ...day }, others, left))
        sums.push({ ...sum, group: sum.group.toSpliced(place, 0, date) });
    }
    return sums.sort(byGroup);
  }

  #windowOf(query: LedgerQuery | UsageQuery, tenant: string | undefined) {
    const { time_zone: timeZone = 'UTC' } = query;
    if (!isTimeZone(timeZone)) throw invalid(`"${timeZone}" is no time zone, such as Europe/Berlin`);
    const now = this.#parts.clock.now();
    const from = instantIn(query.from, 'from', timeZone) ?? windowAt('month', timeZone, now).start;
    // What is settled in this very millisecond counts.
    const to = instantIn(query.to, 'to', timeZone) ?? Math.max(from, now) + 1;
    if (from >= to) throw invalid('`from` must be before `to`');
    if (tenant !== undefined && query.tenant !== undefined && query.tenant !== tenant)
      throw new OrchdError('NOT_FOUND', `there is no tenant "${query.tenant}"`);
    return { window: { from, to, tenant: tenant ?? query.tenant }, timeZone };
  }

  async #durable(): Promise<void> {
    const { engine, loop } = this.#parts;
    await loop.durable(engine.state.seq);
  }
}

export function totalOf(sums: readonly LedgerSum[]): LedgerCounts {
  const total = COUNTS.map((name) => [name, exact(sums.reduce((sum, each) => sum + each[name], 0))]);
  return Object.fromEntries(total) as unknown as LedgerCounts;
}

const invalid = (message: string): OrchdError => new OrchdError('INVALID_PARAMS', message);

function keysIn(by: UsageQuery['by']): string[] {
  const keys = [by ?? []]
    .flat()
    .flatMap((text) => text.split(','))
    .map((key) => key.trim());
  for (const key of keys) if (!isKey(key)) throw unknownKey(key);
  if (new Set(keys).size < keys.length) throw invalid('`by` names a key twice');
  if (keys.length > MAX_KEYS) throw invalid(`\`by\` may name ${MAX_KEYS} keys, not ${keys.length}`);
  return keys;
}

const TAG_KEY = /^tag:[A-Za-z0-9._:/@-]{1,128}$/;

const isKey = (key: string): boolean =>
  key === DAY || TAG_KEY.test(key) || (LEDGER_FIELDS as readonly string[]).includes(key);

function unknownKey(key: string): OrchdError {
  const close = key.startsWith(TAG_PREFIX) ? undefined : nearest(key, KEY_NAMES);
  const hint = close === undefined ? '' : `; did you mean "${close}"?`;
  return invalid(`\`by\` takes ${KEY_NAMES.join(', ')}, not "${key}"${hint}`);
}

function instantIn(text: string | undefined, name: string, timeZone: string): number | undefined {
  if (text === undefined) return undefined;
  const at = dayStart(text, timeZone) ?? parseInstant(text);
  if (at !== undefined && at >= 0) return at;
  throw invalid(
    `\`${name}\` needs a day such as 2026-03-01 or an instant such as 2026-03-01T12:00:00Z, not "${text}"`,
  );
}

function placeIn(after: string): LedgerPlace {
  const point = after.indexOf('.');
  return { at: Number(after.slice(0, point)), token: after.slice(point + 1) };
}

/** The days that a window touches, the first and the last of them cut to it. */
function daysOf({ from, to }: LedgerWindow, timeZone: string): { date: string; from: number; to: number }[] {
  const days = [];
  for (let at = from; at < to; ) {
    if (days.length === MAX_DAYS) throw invalid(`by day, the time may be ${MAX_DAYS} days at most`);
    const { start, end } = windowAt('day', timeZone, at);
    days.push({ date: dateOf(start, timeZone), from: at, to: Math.min(to, end) });
    at = end;
  }
  return days;
}
