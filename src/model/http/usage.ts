/** Schemas of the HTTP requests and answers about usage: what was spent in a time, summed or one by one. */
import { Type } from 'typebox';
import { NAME } from '../job-spec.ts';
import { answerObject, Instant, instant, requestObject, type Shape } from './shape.ts';

const optional = Type.Optional;

const Keys = Type.String({ minLength: 1, maxLength: 600 });

const WINDOW = {
  from: optional(
    Type.String({
      maxLength: 64,
      description:
        'The first instant (ISO 8601 with an offset) or day (YYYY-MM-DD, in the time zone); by default the first of this month',
    }),
  ),
  to: optional(
    Type.String({
      maxLength: 64,
      description: 'The first instant or day that does not count any more; by default now',
    }),
  ),
  time_zone: optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'The time zone of days and months; UTC by default',
    }),
  ),
  tenant: optional(
    Type.String({
      pattern: NAME,
      description:
        'Only this tenant; by default all of them for callers of the default tenant, else their own',
    }),
  ),
} as const;

export const UsageQuery = requestObject({
  ...WINDOW,
  by: optional(
    Type.Union([Keys, Type.Array(Keys, { maxItems: 8 })], {
      description:
        'What to sum by, separated by commas or given several times: principal (the agent), token (the API token), model, seat, route, session, tag:NAME, tenant or day; at most 4',
    }),
  ),
  format: optional(
    Type.Union([Type.Literal('json'), Type.Literal('csv')], { description: 'json by default' }),
  ),
});
export type UsageQuery = Shape<typeof UsageQuery>;

export const LedgerQuery = requestObject({
  ...WINDOW,
  after: optional(
    Type.String({
      pattern: '^[0-9]{1,16}\\..{1,240}$',
      description:
        'The `settled_at` and the `attempt` of the last line that was received, joined by a point: the ledger goes on behind it',
    }),
  ),
  format: optional(
    Type.Union([Type.Literal('jsonl'), Type.Literal('csv')], { description: 'jsonl by default' }),
  ),
});
export type LedgerQuery = Shape<typeof LedgerQuery>;

const count = (description: string) => Type.Integer({ description });
const money = (description: string) =>
  Type.Integer({ description: `${description}, in millionths of the currency` });

const COUNTS = {
  input: count('Input tokens that were neither read from a cache nor written to one'),
  cache_read: count('Input tokens read from a cache'),
  cache_write: count('Input tokens written to a cache'),
  output: count('Output tokens without those of reasoning'),
  reasoning: count('Output tokens of reasoning'),
  ms: count('How long slots were held, in milliseconds'),
  cost: money('What it has cost'),
};

const SUMS = {
  attempts: count('Number of settled attempts'),
  ...COUNTS,
  assumed: money('The part of `cost` that nobody has told, and that counts as it was reserved'),
  overrun: money('By how much attempts have cost more than the bound that was reserved'),
  unpriced: count('Number of attempts whose model had no price'),
};

export const UsageGroup = answerObject('UsageGroup', {
  group: Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]), {
    description: 'The value of each key of `by`; null where an attempt has none',
  }),
  ...SUMS,
});
export type UsageGroup = Shape<typeof UsageGroup>;

export const UsageTotal = answerObject('UsageTotal', SUMS);
export type UsageTotal = Shape<typeof UsageTotal>;

export const UsageReport = answerObject('Usage', {
  from: Instant,
  to: Instant,
  time_zone: Type.String(),
  currency: Type.String({ description: 'Every cost is in millionths of it' }),
  by: Type.Array(Type.String()),
  total: UsageTotal,
  groups: Type.Array(UsageGroup, {
    description: 'In the order of their values; without `by` none',
  }),
});
export type UsageReport = Shape<typeof UsageReport>;

export const LedgerLine = answerObject('LedgerLine', {
  settled_at: instant('When the attempt was closed'),
  attempt: Type.String({ description: 'The token of the attempt: no two lines have the same' }),
  job_id: Type.String(),
  tenant: Type.String(),
  principal: Type.String({ description: 'The agent' }),
  token: Type.String({ description: 'The API token, or the program, that submitted the job' }),
  session_id: optional(Type.String()),
  type: Type.String(),
  model: optional(Type.String()),
  seat: Type.String({ description: 'The backend' }),
  route: optional(Type.String()),
  root_id: Type.String({ description: 'The job at the top of its ancestors, or the job itself' }),
  outcome: Type.String({ description: 'succeeded, failed, cancelled, turned_away, waits or unknown' }),
  basis: Type.String({ description: 'Where `cost` comes from: told, assumed, nothing or unpriced' }),
  ...COUNTS,
  overrun: SUMS.overrun,
  tags: optional(Type.Record(Type.String(), Type.String())),
});
export type LedgerLine = Shape<typeof LedgerLine>;
