/** The routes of usage: sums of what was spent, and the ledger of settled attempts. A tenant sees its own, the operator all. */
import type { ServerResponse } from 'node:http';
import type { LedgerCounts, LedgerSum } from '../core/ports/ledger.ts';
import { csvLine } from '../kit/csv.ts';
import type { Timers } from '../kit/env/env.ts';
import { ownTurns } from '../kit/slices.ts';
import type { Charge } from '../model/charge.ts';
import {
  type LedgerLine,
  LedgerQuery,
  type UsageGroup,
  UsageQuery,
  UsageReport,
  type UsageTotal,
} from '../model/http/usage.ts';
import { LEDGER_COLUMNS, ledgerCells, usageCells, usageColumns } from '../model/usage-columns.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { totalOf, type UsageSums } from '../runtime/usage.ts';
import { NDJSON_TYPE } from '../wire/line-stream.ts';
import { writeInPieces } from '../wire/pieces.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { type Identity, isOperator } from '../wire/tokens.ts';
import type { OpenStreams } from './open-streams.ts';

const CSV_TYPE = 'text/csv; charset=utf-8; header=present';
/** Groups that are written in one turn of the event loop. */
const GROUPS_PER_TURN = 500;

export interface UsageRouteParts {
  readonly currency: string;
  readonly openStreams: OpenStreams;
  readonly timers: Timers;
}

export const usageRoutes = (
  { reads }: Orchestrator,
  { currency, openStreams, timers }: UsageRouteParts,
): readonly Route[] => [
  route({
    operationId: 'getUsage',
    tag: 'money',
    method: 'GET',
    path: '/v2/usage',
    role: 'read',
    summary:
      'What the attempts settled in a time have used and cost, summed by principal, model, day and more',
    query: UsageQuery,
    requestHeaders: { accept: '`text/csv` for CSV, as `format=csv`' },
    answers: {
      200: { description: 'The sums; with `format=csv` one row per group', body: UsageReport },
      400: 'The time or a key is invalid, or there are more than 10,000 groups',
    },
    handle: async (call) => {
      const sums = await reads.usage.sums(call.query, tenantOf(call.identity));
      if (!wantsCsv(call)) return { status: 200, json: await reportText(sums, currency, timers) };
      const content = await csvText(sums, timers);
      return { status: 200, text: { type: CSV_TYPE, content } };
    },
  }),
  route({
    operationId: 'getLedger',
    tag: 'money',
    method: 'GET',
    path: '/v2/usage/ledger',
    role: 'read',
    summary: 'The attempts settled in a time, one a line, in the order of settlement',
    query: LedgerQuery,
    requestHeaders: { accept: '`text/csv` for CSV, as `format=csv`' },
    isProxied: true,
    answers: {
      200: {
        description:
          'One line per attempt; their costs add up to those of `GET /v2/usage`. An answer that breaks off is resumed with `after`',
        type: NDJSON_TYPE,
      },
      400: 'The time is invalid',
      429: 'Too many streams',
    },
    handle: async (call) => {
      const pages = reads.usage.ledger(call.query, tenantOf(call.identity));
      // The first page is read before the answer begins, so that an error has its status.
      const first = await pages.next();
      const release = openStreams.take(call.identity);
      const isCsv = wantsCsv(call);
      return {
        stream: (_, response) => void writeLedger(first, pages, isCsv, response, timers).finally(release),
      };
    },
  }),
];

const tenantOf = (identity: Identity): string | undefined =>
  isOperator(identity) ? undefined : identity.tenant;

function wantsCsv({ query, headers }: Call<unknown, { readonly format?: string }>): boolean {
  return query.format === undefined ? /^\s*text\/csv\b/i.test(headers.accept ?? '') : query.format === 'csv';
}

const viewOfCounts = (counts: LedgerCounts): UsageTotal => ({
  attempts: counts.attempts,
  input: counts.input,
  cache_read: counts.cacheRead,
  cache_write: counts.cacheWrite,
  output: counts.output,
  reasoning: counts.reasoning,
  ms: counts.ms,
  cost: counts.cost,
  assumed: counts.assumed,
  overrun: counts.overrun,
  unpriced: counts.unpriced,
});

const viewOfGroup = (by: readonly string[], sum: LedgerSum): UsageGroup => ({
  group: Object.fromEntries(by.map((key, at) => [key, sum.group[at] ?? null])),
  ...viewOfCounts(sum),
});

/** The text of each portion of groups, made in a turn of its own. */
async function inPortions(
  { by, sums }: UsageSums,
  textOf: (groups: readonly UsageGroup[]) => string,
  timers: Timers,
): Promise<string[]> {
  const texts: string[] = [];
  for (let from = 0; from < sums.length; from += GROUPS_PER_TURN) {
    await ownTurns(timers).next();
    texts.push(textOf(sums.slice(from, from + GROUPS_PER_TURN).map((sum) => viewOfGroup(by, sum))));
  }
  return texts;
}

async function reportText(sums: UsageSums, currency: string, timers: Timers): Promise<string> {
  const { window, timeZone, by } = sums;
  const head: Omit<UsageReport, 'groups'> = {
    from: window.from,
    to: window.to,
    time_zone: timeZone,
    currency,
    by: [...by],
    total: viewOfCounts(totalOf(sums.sums)),
  };
  const groups =
    by.length === 0 ? [] : await inPortions(sums, (some) => JSON.stringify(some).slice(1, -1), timers);
  return `${JSON.stringify(head).slice(0, -1)},"groups":[${groups.join(',')}]}`;
}

/** Without keys, the one row is the total. */
async function csvText(sums: UsageSums, timers: Timers): Promise<string> {
  const { by } = sums;
  const rowsOf = (some: readonly UsageGroup[]): string =>
    some.map((group) => csvLine(usageCells(by, group))).join('');
  const rows =
    by.length === 0
      ? [csvLine(usageCells(by, viewOfCounts(totalOf(sums.sums))))]
      : await inPortions(sums, rowsOf, timers);
  return csvLine(usageColumns(by)) + rows.join('');
}

const lineOf = (charge: Charge): LedgerLine => ({
  settled_at: charge.at,
  attempt: charge.token,
  job_id: charge.job,
  tenant: charge.tenant,
  principal: charge.agent,
  token: charge.submittedBy,
  ...(charge.session !== undefined && { session_id: charge.session }),
  type: charge.type,
  ...(charge.model !== undefined && { model: charge.model }),
  seat: charge.seat,
  ...(charge.route !== undefined && { route: charge.route }),
  root_id: charge.root,
  outcome: charge.outcome,
  basis: charge.basis,
  input: charge.input,
  cache_read: charge.cacheRead,
  cache_write: charge.cacheWrite,
  output: charge.output,
  reasoning: charge.reasoning,
  ms: charge.ms,
  cost: charge.cost,
  overrun: charge.overrun,
  ...(charge.tags !== undefined && { tags: charge.tags }),
});

/** Never rejects. An answer that cannot be completed is cut off, which a client can tell from its end. */
async function writeLedger(
  first: IteratorResult<readonly Charge[], void>,
  pages: AsyncGenerator<readonly Charge[]>,
  isCsv: boolean,
  response: ServerResponse,
  timers: Timers,
): Promise<void> {
  const textOf = (charge: Charge): string =>
    isCsv ? csvLine(ledgerCells(lineOf(charge))) : `${JSON.stringify(lineOf(charge))}\n`;
  response.on('error', () => undefined);
  response.writeHead(200, { 'content-type': isCsv ? CSV_TYPE : NDJSON_TYPE });
  try {
    if (isCsv) response.write(csvLine(LEDGER_COLUMNS));
    for (let page = first; !page.done; page = await pages.next()) {
      await writeInPieces(response, [page.value.map(textOf).join('')], timers);
      if (response.destroyed) return;
    }
    response.end();
  } catch {
    response.destroy();
  } finally {
    await pages.return(undefined).catch(() => undefined);
  }
}
