/** The charges that a folder still tells: those of the attempts closed in its log, and of the attempts in its records. */
import type { Seq } from '../../../core/ports/store.ts';
import { chargeOf, chargesOf } from '../../../model/charge.ts';
import { type AskRecord, type Change, DEFAULT_TENANT } from '../../../model/records.ts';
import type { AskOf } from '../../charges.ts';
import type { Records } from '../../records.ts';
import { chargeRow } from './charge-rows.ts';

export class RebuiltCharges {
  readonly #records: Records;
  readonly #askOf: AskOf;
  #rows: string[] = [];

  constructor(records: Records) {
    // The records may be changed while the log is read.
    const jobs = new Map(records.jobs);
    this.#records = records;
    this.#askOf = (uid) => jobs.get(uid)?.ask;
    for (const { uid, ask, attempts } of jobs.values())
      for (const charge of chargesOf(uid, ask, attempts)) this.#rows.push(chargeRow(charge));
  }

  /** A change of the log; `askInLog` finds requests in the log that was read so far. */
  change(change: Change, seq: Seq, askInLog: AskOf): void {
    if (change.kind !== 'attempt' || change.after?.endedAt === undefined || seq > this.#records.seq) return;
    const uid = change.after.job;
    const ask = askInLog(uid) ?? this.#askOf(uid) ?? forgottenAsk(uid);
    const charge = chargeOf(uid, ask, change.after);
    if (charge) this.#rows.push(chargeRow(charge));
  }

  /** Rows as Background.index() takes them. */
  get rows(): string {
    return this.#rows.join('');
  }
}

/**
 * The request of a job that was admitted before the log begins and has ended since: only its name is known. Its charges
 * stay in the sums, without a principal.
 */
function forgottenAsk(uid: string): AskRecord {
  const at = uid.indexOf('~');
  const tenant = at < 0 ? DEFAULT_TENANT : uid.slice(0, at);
  const spec = { agent: '', type: '', priority: 'batch', score: 0, weight: 1, max_tries: 1 } as const;
  return {
    v: 2,
    id: uid.slice(at + 1),
    tenant,
    n: 0,
    createdAt: 0,
    submittedBy: '',
    spec,
    payload: '',
    payloadBytes: 0,
    modelRef: undefined,
    contextTokens: undefined,
    tokens: undefined,
    ancestors: undefined,
    hash: undefined,
    correlationId: undefined,
  };
}
