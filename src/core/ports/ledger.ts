/** The port to the ledger: the charges of settled attempts, which a store keeps apart from its jobs (docs/decisions/0031). */
import type { Charge } from '../../model/charge.ts';
import { OrchdError } from '../../model/errors.ts';
import type { TokenCounts } from '../../model/usage.ts';

/** The charges settled from `from` on and before `to`; without `tenant` those of all tenants. */
export interface LedgerWindow {
  readonly from: number;
  readonly to: number;
  readonly tenant?: string | undefined;
}

/** The fields by which charges are summed. `principal` is the agent, `token` the API token or program that submitted. */
export const LEDGER_FIELDS = ['tenant', 'principal', 'token', 'model', 'seat', 'route', 'session'] as const;
export type LedgerField = (typeof LEDGER_FIELDS)[number];

export const TAG_PREFIX = 'tag:';
export type LedgerKey = LedgerField | `${typeof TAG_PREFIX}${string}`;

/** The counts of charges, added up. */
export interface LedgerCounts extends TokenCounts {
  readonly attempts: number;
  readonly ms: number;
  readonly cost: number;
  /** The part of `cost` that nobody has told: it was reserved, and counts as spent. */
  readonly assumed: number;
  readonly overrun: number;
  /** The number of attempts whose model had no price. */
  readonly unpriced: number;
}

export interface LedgerSum extends LedgerCounts {
  /** The value of each key, in the order of the question; null where the charges have none. */
  readonly group: readonly (string | null)[];
}

/** The place of a charge in the order of settlement: by instant, then by token. */
export type LedgerPlace = Pick<Charge, 'at' | 'token'>;

/** Reads of settled attempts. An answer includes every change that was durable when the question was asked. */
export interface LedgerReads {
  /** One sum for each group that has charges, in the order of the groups. Throws INVALID_PARAMS for more than `limit` groups. */
  sums(window: LedgerWindow, by: readonly LedgerKey[], limit: number): Promise<LedgerSum[]>;
  /** At most `limit` charges in the order of settlement, those behind `after`. */
  page(window: LedgerWindow, after: LedgerPlace | undefined, limit: number): Promise<Charge[]>;
}

/** The value of a key in a charge. */
export function keyOf(charge: Charge, key: LedgerKey): string | null {
  if (key.startsWith(TAG_PREFIX)) return charge.tags?.[key.slice(TAG_PREFIX.length)] ?? null;
  return FIELDS[key as LedgerField](charge) ?? null;
}

const FIELDS: Readonly<Record<LedgerField, (charge: Charge) => string | undefined>> = {
  tenant: ({ tenant }) => tenant,
  principal: ({ agent }) => agent,
  token: ({ submittedBy }) => submittedBy,
  model: ({ model }) => model,
  seat: ({ seat }) => seat,
  route: ({ route }) => route,
  session: ({ session }) => session,
};

/** Sums are whole numbers, and exact: one that a number cannot hold is refused. */
export function exact(sum: number | bigint | string | null): number {
  const value = Number(sum ?? 0);
  if (Number.isSafeInteger(value)) return value;
  throw new OrchdError('INVALID_PARAMS', `a sum exceeds ${Number.MAX_SAFE_INTEGER}: choose a shorter time`);
}

/** The names of the counts of a LedgerSum, in the order in which stores select them. */
export const COUNTS = [
  'attempts',
  'input',
  'cacheRead',
  'cacheWrite',
  'output',
  'reasoning',
  'ms',
  'cost',
  'assumed',
  'overrun',
  'unpriced',
] as const satisfies readonly (keyof LedgerCounts)[];

/** Groups without a value come first, the others in the order of their texts. */
export function byGroup(a: LedgerSum, b: LedgerSum): number {
  for (const [at, value] of a.group.entries()) {
    const other = b.group[at] ?? null;
    if (value === other) continue;
    if (value === null || other === null) return value === null ? -1 : 1;
    return value < other ? -1 : 1;
  }
  return 0;
}
