/**
 * A hash of everything a store holds: the sum of the hashes of its records, so that it depends neither on the kind of
 * store nor on the order of reading. A large body enters by its size and SHA-256, not by its reference.
 */

import { createHash } from 'node:crypto';
import type { SessionKey } from '../../core/ports/keys.ts';
import { stableHash } from '../../kit/hash.ts';
import type { BlobRef } from '../../model/body.ts';
import type { Charge } from '../../model/charge.ts';
import { withKeptBody } from '../../model/kept-body.ts';
import type { BrainRecord } from '../../model/records.ts';
import type { SessionRecord } from '../../model/session-record.ts';
import { isTerminal } from '../../model/states.ts';
import type { OtherRecord } from '../records.ts';
import type { LoadedJob, LoadedSession } from './contents.ts';
import { withSessionBodies } from './load-bodies.ts';

export interface Totals {
  readonly live: number;
  readonly ended: number;
  readonly attempts: number;
  readonly bodies: number;
  readonly bodyBytes: number;
  readonly others: number;
  readonly charges: number;
  readonly sessions: number;
  readonly keys: number;
  readonly hash: string;
}

const MODULUS = 1n << 256n;

export class Digest {
  #sum = 0n;
  #live = 0;
  #ended = 0;
  #attempts = 0;
  #bodies = 0;
  #bodyBytes = 0;
  #others = 0;
  #charges = 0;
  #sessions = 0;
  #keys = 0;

  addJob({ bundle, payload, kept }: LoadedJob): void {
    const { uid, seq, ask, job, attempts } = bundle;
    const records = {
      ask: payload === undefined ? ask : { ...ask, payload: this.#body(payload) },
      job: kept === undefined ? job : withKeptBody(job, this.#body(kept) as never),
    };
    this.#add(['job', uid, seq, records.ask, records.job, attempts]);
    if (isTerminal(job.state)) this.#ended++;
    else this.#live++;
    this.#attempts += attempts.length;
  }

  addOther({ kind, id, after }: OtherRecord): void {
    this.#add([kind, id, after]);
    this.#others++;
  }

  /** A session that is not archived is one of the other records. */
  addLiveSession(id: string, session: LoadedSession): void {
    this.#add(['session', id, this.#session(session)]);
    this.#others++;
  }

  addCharge(charge: Charge): void {
    this.#add(['charge', charge]);
    this.#charges++;
  }

  /** An archived session. */
  addSession(session: LoadedSession): void {
    this.#add(['archived', this.#session(session)]);
    this.#sessions++;
  }

  addKey({ id, key, tenant, session }: SessionKey): void {
    this.#add(['key', id, key.toString('base64'), tenant, session]);
    this.#keys++;
  }

  /** The epoch is left out, since the migration itself raises it. */
  addBrain(brain: BrainRecord): void {
    this.#add(['brain', { ...brain, epoch: 0 }]);
  }

  get jobs(): number {
    return this.#live + this.#ended;
  }

  totals(): Totals {
    return {
      live: this.#live,
      ended: this.#ended,
      attempts: this.#attempts,
      bodies: this.#bodies,
      bodyBytes: this.#bodyBytes,
      others: this.#others,
      charges: this.#charges,
      sessions: this.#sessions,
      keys: this.#keys,
      hash: this.#sum.toString(16).padStart(64, '0'),
    };
  }

  #session({ record, messages, metadata }: LoadedSession): SessionRecord {
    const body = (text: string | undefined) =>
      text === undefined ? undefined : (this.#body(text) as BlobRef);
    return withSessionBodies(record, body(messages), body(metadata));
  }

  #body(text: string): object {
    const bytes = Buffer.byteLength(text);
    this.#bodies++;
    this.#bodyBytes += bytes;
    return { bytes, sha256: createHash('sha256').update(text).digest('hex') };
  }

  #add(value: unknown): void {
    this.#sum = (this.#sum + BigInt(`0x${stableHash(value)}`)) % MODULUS;
  }
}

/** Describes the first total that differs; undefined where all are equal. */
export function difference(expected: Totals, actual: Totals): string | undefined {
  for (const name of Object.keys(expected) as (keyof Totals)[]) {
    if (expected[name] !== actual[name]) return `${name} ${actual[name]} instead of ${expected[name]}`;
  }
  return undefined;
}
