/** The rows that a batch of changes comes to: of each record only its last after-image is written. */

import type { Body } from '../../model/body.ts';
import type { Charge } from '../../model/charge.ts';
import { isKept } from '../../model/kept-attempts.ts';
import { keptBody } from '../../model/kept-body.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import { type AskRecord, type Change, type JobRecord, smallRecordName } from '../../model/records.ts';
import { type BodyName, bodiesOf } from './blobs.ts';
import { askValues, attemptValues, jobValues, leaseValues, textOf, workerPoolValues } from './rows.ts';
import type { Value } from './sql.ts';

/** Changes that become durable together. */
export interface Batch {
  readonly changes: readonly Change[];
  /** The charges of the attempts that these changes close. */
  readonly charges: readonly Charge[];
  /** The sequence number before the first change. */
  readonly after: number;
  readonly now: number;
}

/**
 * A change and its sequence number. The text of the record is made when it is first needed, and once: the row of the
 * record and the audit row both contain it.
 */
class NumberedChange {
  readonly change: Change;
  readonly seq: number;
  #text: string | undefined;

  constructor(change: Change, seq: number) {
    this.change = change;
    this.seq = seq;
  }

  get text(): string {
    this.#text ??= textOf(this.change);
    return this.#text;
  }
}

/** A row of orchestrator_jobs whose ask is in this batch; without `moved`, nothing has happened to the job yet. */
export interface AskImage {
  readonly asked: NumberedChange;
  moved: NumberedChange | undefined;
  /** The last change of the job or of one of its attempts. */
  seq: number;
}

/** The columns that change when a job moves, of a row whose ask is in the table already. */
interface MoveImage {
  readonly moved: NumberedChange;
  seq: number;
}

/** The values of a record that is written; null where the record is removed. */
type Values = Value[] | null;

export class Images {
  readonly numbered: readonly NumberedChange[];
  readonly asks = new Map<string, AskImage>();
  readonly moves = new Map<string, MoveImage>();
  /** Jobs of which only an attempt has changed, with the sequence number of that change. */
  readonly touched = new Map<string, number>();
  /** Jobs whose attempts of an earlier life are removed. */
  readonly renewed: Value[][] = [];
  readonly attempts = new Map<string, Value[]>();
  /** The tokens of attempts that are not kept. */
  readonly droppedAttempts: Value[][] = [];
  readonly failures = new Map<string, Values>();
  readonly leases = new Map<string, Values>();
  /** Leases whose time is over: their rows are marked, and kept for as long as the audit. */
  readonly expiredLeases = new Set<string>();
  /** Rows for readers, beside the records. */
  readonly workerPools = new Map<string, Values>();
  /** Records of orchestrator_records; a record without a text is removed. */
  readonly kept = new Map<string, { kind: string; id: string; text: string | undefined }>();
  brain: string | null = null;

  constructor({ changes, after }: Batch) {
    this.numbered = changes.map((change, at) => new NumberedChange(change, after + at + 1));
    for (const numbered of this.numbered) this.#note(numbered);
  }

  #note(numbered: NumberedChange): void {
    const { change, seq } = numbered;
    const { id } = change;
    switch (change.kind) {
      case 'ask':
        if (change.after) this.#noteAsk(id, change.after, numbered);
        return;
      case 'job':
        if (change.after) this.#noteMove(id, numbered);
        return;
      case 'attempt':
        if (!change.after) return;
        if (isKept(change.after)) this.attempts.set(id, attemptValues(id, change.after, numbered.text));
        else this.#dropAttempt(id);
        this.#touch(change.after.job, seq);
        return;
      case 'failure':
        // Removed first, so that the map is in the order of the last changes.
        this.failures.delete(id);
        this.failures.set(id, change.after && [id, seq, change.after.until, numbered.text]);
        return;
      case 'brain':
        if (change.after) this.brain = numbered.text;
        return;
      case 'lease':
        this.#noteLease(id, change.after, change.cause === 'expired', numbered.text);
        return;
      default:
        if (change.kind === 'worker_pool')
          this.workerPools.set(id, change.after && workerPoolValues(id, change.after));
        this.kept.set(smallRecordName(change.kind, id), {
          kind: change.kind,
          id,
          text: change.after ? numbered.text : undefined,
        });
    }
  }

  #noteLease(id: string, after: LeaseRecord | null, isExpired: boolean, text: string): void {
    this.leases.delete(id);
    this.expiredLeases.delete(id);
    if (isExpired) this.expiredLeases.add(id);
    else this.leases.set(id, after && leaseValues(id, after, text));
  }

  #dropAttempt(token: string): void {
    this.attempts.delete(token);
    this.droppedAttempts.push([token]);
  }

  /** An id may come back, redriven or chosen again: what this batch has noted of its earlier life is dropped. */
  #noteAsk(uid: string, ask: AskRecord, asked: NumberedChange): void {
    // Ids that orchd made itself come back only by a redrive, which brings their attempts again.
    if (ask.hash !== undefined || ask.n !== asked.seq) this.#renew(uid);
    this.asks.set(uid, { asked, moved: undefined, seq: asked.seq });
  }

  #renew(uid: string): void {
    this.renewed.push([uid]);
    const isNoted = this.asks.has(uid) || this.moves.has(uid) || this.touched.has(uid);
    if (!isNoted) return;
    this.moves.delete(uid);
    this.touched.delete(uid);
    for (const [token, values] of this.attempts) if (values[1] === uid) this.attempts.delete(token);
  }

  #noteMove(uid: string, moved: NumberedChange): void {
    const image = this.asks.get(uid);
    if (image) {
      image.moved = moved;
      image.seq = moved.seq;
    } else {
      this.moves.set(uid, { moved, seq: moved.seq });
      this.touched.delete(uid);
    }
  }

  #touch(uid: string, seq: number): void {
    const image = this.asks.get(uid) ?? this.moves.get(uid);
    if (image) image.seq = seq;
    else this.touched.set(uid, seq);
  }
}

/** The bodies that the jobs of a batch name. */
export function namedBodies({ asks, moves }: Images): BodyName[] {
  const names: BodyName[] = [];
  for (const [uid, { asked, moved }] of asks) {
    const { payload } = asked.change.after as AskRecord;
    if (typeof payload === 'object' || moved) names.push(...bodiesOf(uid, payload, keptBodyOf(moved)));
  }
  for (const [uid, { moved }] of moves) names.push(...bodiesOf(uid, keptBodyOf(moved)));
  return names;
}

const keptBodyOf = (moved: NumberedChange | undefined): Body | undefined =>
  moved?.change.after ? keptBody(moved.change.after as JobRecord) : undefined;

/** The row of a job to which nothing has happened yet: the columns that moves change are constants of the statement. */
export function freshRow({ asked, seq }: AskImage): Value[] {
  const values = askColumns(asked);
  values.push(seq);
  return values;
}

export const movedRow = (asked: NumberedChange, moved: NumberedChange, seq: number): Value[] => [
  ...askColumns(asked),
  ...moveColumns(moved, seq),
];

export const moveRow = (uid: string, { moved, seq }: MoveImage): Value[] => [...moveColumns(moved, seq), uid];

const askColumns = ({ change, text }: NumberedChange): Value[] =>
  askValues(change.id, change.after as AskRecord, text);

const moveColumns = ({ change, text }: NumberedChange, seq: number): Value[] =>
  jobValues(change.after as JobRecord, text, seq);
