/**
 * A charge: what one closed attempt used and cost, for whom and for what. Charges are derived from the records of a job
 * alone, so that deriving them again gives the same ones; `token` tells them apart.
 */
import { type AskRecord, type AttemptRecord, tokenOf } from './records.ts';
import { isOpen } from './states.ts';
import type { TokenCounts } from './usage.ts';

export interface Charge extends TokenCounts {
  /** The token of the attempt. */
  readonly token: string;
  readonly job: string;
  readonly tenant: string;
  readonly agent: string;
  /** The API token, or the program, that submitted the job. */
  readonly submittedBy: string;
  readonly session: string | undefined;
  readonly tags: Readonly<Record<string, string>> | undefined;
  readonly type: string;
  readonly model: string | undefined;
  readonly seat: string;
  readonly route: string | undefined;
  /** The job at the top of the job's ancestors, or the job itself. */
  readonly root: string;
  /** When the attempt was closed. */
  readonly at: number;
  /** How long it held its slot. */
  readonly ms: number;
  readonly outcome: NonNullable<AttemptRecord['outcome']> | 'unknown';
  /** In micro-units; 0 without a price. */
  readonly cost: number;
  /** As in Bill, or `unpriced` where the model had no price. */
  readonly basis: 'told' | 'assumed' | 'nothing' | 'unpriced';
  /** By how much the cost exceeds an upper bound that was reserved. */
  readonly overrun: number;
}

const NO_TOKENS: TokenCounts = { input: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

/** The charges of a job's closed attempts that used something or have a price. */
export function* chargesOf(
  uid: string,
  ask: AskRecord,
  attempts: Iterable<AttemptRecord>,
): Generator<Charge> {
  for (const attempt of attempts) {
    const charge = chargeOf(uid, ask, attempt);
    if (charge) yield charge;
  }
}

/** True for a closed attempt that used something or has a price. */
export function isCharged({ state, endedAt, usage, bill }: AttemptRecord): boolean {
  if (isOpen(state) || endedAt === undefined) return false;
  return usage !== undefined || (bill !== undefined && bill.basis !== 'nothing');
}

export function chargeOf(uid: string, ask: AskRecord, attempt: AttemptRecord): Charge | undefined {
  const { bill, usage, endedAt } = attempt;
  if (endedAt === undefined || !isCharged(attempt)) return undefined;
  const cost = bill?.cost ?? 0;
  return {
    ...(usage ?? NO_TOKENS),
    token: tokenOf(uid, attempt.n),
    job: ask.id,
    tenant: ask.tenant,
    agent: ask.spec.agent,
    submittedBy: ask.submittedBy,
    session: ask.spec.session_id,
    tags: ask.spec.tags,
    type: ask.spec.type,
    model: attempt.model ?? ask.spec.model,
    seat: attempt.backend,
    route: ask.route,
    root: ask.ancestors?.[0] ?? ask.id,
    at: endedAt,
    ms: attempt.acceptedAt === undefined ? 0 : Math.max(0, endedAt - attempt.acceptedAt),
    outcome: attempt.outcome ?? 'unknown',
    cost,
    basis: bill ? (bill.basis ?? 'assumed') : 'unpriced',
    overrun: bill?.isBound && bill.basis === 'told' ? Math.max(0, cost - bill.reserved) : 0,
  };
}
