/** An engine on a virtual clock with seats that take every job they are offered and work for a fixed time. */

import type { BackendInfo } from '../../src/core/ports/backend.ts';
import type { EngineSettings } from '../../src/core/settings.ts';
import { tokenOf } from '../../src/model/records.ts';
import { EngineKit, type Fields, SUCCESS } from '../fakes/engine-kit.ts';

export interface Start {
  readonly id: string;
  readonly at: number;
  readonly backend: string;
}

export interface Arrival {
  readonly at: number;
  readonly id: string;
  readonly fields: Fields;
}

export class Seats {
  readonly kit: EngineKit;
  readonly starts: Start[] = [];
  readonly #serviceMs: number;
  /** Ends to come, in order: every job takes the same time. */
  readonly #ends: { at: number; token: string }[] = [];
  #seen: number;

  constructor(
    seats: readonly Partial<BackendInfo>[],
    serviceMs: number,
    settings: Partial<EngineSettings> = {},
  ) {
    this.kit = new EngineKit({ queueCapacity: 1_000_000, queueBytes: 2 ** 40, ...settings });
    this.#serviceMs = serviceMs;
    for (const [n, info] of seats.entries()) this.kit.backend(info.name ?? `seat${n}`, info);
    this.#seen = this.kit.log.length;
  }

  /** Lets the arrivals come and everything run until `untilMs` after the start. */
  run(arrivals: readonly Arrival[], until: number): void {
    const coming = [...arrivals].sort((a, b) => a.at - b.at);
    for (;;) {
      const next = coming[0];
      const end = this.#ends[0];
      const at = Math.min(next?.at ?? Number.POSITIVE_INFINITY, end?.at ?? Number.POSITIVE_INFINITY);
      if (at > until) return;
      this.kit.now = at;
      // At one instant the end goes first: a free seat and a new job meet in the engine either way.
      if (end && end.at === at) {
        this.#ends.shift();
        this.kit.step({ type: 'outcome', token: end.token, outcome: SUCCESS });
      } else if (next) {
        coming.shift();
        this.kit.submit(next.id, next.fields);
      }
      this.#takeUp();
    }
  }

  /** Accepts what was claimed since the last look. */
  #takeUp(): void {
    for (; this.#seen < this.kit.log.length; this.#seen++) {
      const { change, at } = this.kit.log[this.#seen]!;
      if (change.kind !== 'attempt' || change.after?.state !== 'intended') continue;
      const { job, n, backend } = change.after;
      this.starts.push({ id: job, at, backend });
      this.kit.step({ type: 'offered', token: tokenOf(job, n), answer: { is: 'accepted' } });
      this.#ends.push({ at: at + this.#serviceMs, token: tokenOf(job, n) });
    }
  }
}

/** Makes `count` arrivals, one every `everyMs`. */
export const arrivals = (
  count: number,
  name: string,
  from: number,
  everyMs: number,
  fields: Fields = {},
): Arrival[] =>
  Array.from({ length: count }, (_, n) => ({ at: from + n * everyMs, id: `${name}${n}`, fields }));
