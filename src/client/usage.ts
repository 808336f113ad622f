/** Reads what was spent: the questions of a client, and the ledger behind them. */
import type { LedgerLine } from '../model/http/usage.ts';
import type { PatienceOptions } from './patience.ts';
import type { Requests } from './requests.ts';
import { resumedLines } from './resumed-lines.ts';

/** A time and a tenant. `from` and `to` are days or instants; `to` does not count. */
export interface UsageWindow {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly timeZone?: string | undefined;
  readonly tenant?: string | undefined;
}

export interface UsageRequest extends UsageWindow {
  /** principal, token, model, seat, route, session, tag:NAME, tenant or day. */
  readonly by?: readonly string[] | undefined;
}

export interface LedgerOptions extends UsageWindow, PatienceOptions {}

export function usageQuery({ from, to, timeZone, tenant, by }: UsageRequest): URLSearchParams {
  const given = { from, to, time_zone: timeZone, tenant, by: by?.length ? by.join(',') : undefined };
  return new URLSearchParams(
    Object.entries(given).filter((pair): pair is [string, string] => pair[1] !== undefined),
  );
}

export function readLedger(requests: Requests, options: LedgerOptions): AsyncGenerator<LedgerLine> {
  const pathOf = (last: LedgerLine | undefined): string => {
    const query = usageQuery(options);
    if (last) query.set('after', `${last.settled_at}.${last.attempt}`);
    return `/v2/usage/ledger?${query}`;
  };
  return resumedLines(requests, pathOf, options);
}
