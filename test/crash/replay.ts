/** Replays the log by the two transition tables alone, apart from the engine, and says what breaks a rule. */

import { stableHash } from '../../src/kit/hash.ts';
import { causeText } from '../../src/model/causes.ts';
import { FRESH_JOB } from '../../src/model/moves.ts';
import type { AskRecord, AttemptRecord, BrainRecord, JobRecord } from '../../src/model/records.ts';
import { jobOfToken, tokenOf } from '../../src/model/records.ts';
import { isOpen, isTerminal, mayMoveAttempt, mayMoveJob } from '../../src/model/states.ts';
import type { LoggedChange } from './full-log.ts';

/** A job from its admission on. An id that was purged may begin another life. */
export interface Life {
  readonly uid: string;
  readonly ask: AskRecord;
  readonly attempts: Map<number, { record: AttemptRecord; readonly seq: number }>;
  readonly redrives: number[];
  readonly states: string[];
  job: JobRecord;
}

export interface Replayed {
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly brain: BrainRecord | undefined;
  readonly lastAt: number;
  readonly problems: readonly string[];
}

export class Replay {
  readonly lives = new Map<string, Life[]>();
  readonly problems: string[] = [];
  readonly #historyMs: number;
  brain: BrainRecord | undefined;
  lastAt = 0;

  constructor(historyMs: number) {
    this.#historyMs = historyMs;
  }

  add(logged: LoggedChange): void {
    const { change, seq, at } = logged;
    if (at < this.lastAt) this.problems.push(`change ${seq}: time went back from ${this.lastAt} to ${at}`);
    this.lastAt = at;
    if (!change.after) return;
    if (change.kind === 'ask') this.#ask(change.id, change.after, causeText(change.cause), seq);
    else if (change.kind === 'job') this.#job(change.id, change.after, causeText(change.cause), seq);
    else if (change.kind === 'attempt') this.#attempt(change.id, change.after, causeText(change.cause), seq);
    else if (change.kind === 'brain') this.#brain(change.after, causeText(change.cause), seq);
  }

  #ask(uid: string, ask: AskRecord, cause: string, seq: number): void {
    const former = this.lives.get(uid)?.at(-1);
    if (cause === 'redrive') {
      if (!former) this.problems.push(`change ${seq}: ${uid} comes back but never was`);
      return;
    }
    if (ask.n !== seq) this.problems.push(`change ${seq}: ${uid} says that it was admitted as ${ask.n}`);
    if (former && !this.#mayBeGone(former, ask.createdAt)) {
      this.problems.push(`change ${seq}: ${uid} is admitted a second time`);
    }
    this.#checkKey(ask, seq);
    const life = { uid, ask, attempts: new Map(), redrives: [], states: ['queued'], job: FRESH_JOB };
    this.lives.set(uid, [...(this.lives.get(uid) ?? []), life]);
  }

  /** A key belongs to at most one job that is not terminal. */
  #checkKey({ id, tenant, spec: { key } }: AskRecord, seq: number): void {
    if (key === undefined) return;
    for (const lives of this.lives.values()) {
      const { ask, job } = lives.at(-1) as Life;
      if (ask.spec.key === key && ask.tenant === tenant && ask.id !== id && !isTerminal(job.state))
        this.problems.push(`change ${seq}: ${id} gets the key ${key} while ${ask.id} has it`);
    }
  }

  #mayBeGone(life: Life, now: number): boolean {
    return isTerminal(life.job.state) && (life.job.endedAt ?? now) <= now - this.#historyMs;
  }

  #job(uid: string, after: JobRecord, cause: string, seq: number): void {
    const life = this.lives.get(uid)?.at(-1);
    if (!life) return void this.problems.push(`change ${seq}: ${uid} moves but was never admitted`);
    const before = life.job;
    const wrong = (what: string): void => {
      this.problems.push(`change ${seq}: ${uid} ${what} (${before.state} -> ${after.state}, ${cause})`);
    };
    if (before.state !== after.state && !mayMoveJob(before.state, after.state))
      wrong('makes an illegal move');
    if (before.state === after.state && isTerminal(before.state)) wrong('changes after its end');
    if (after.attempt < before.attempt) wrong(`goes back to attempt ${after.attempt}`);
    if (after.state === 'claimed' && after.attempt <= before.attempt)
      wrong('is claimed without a new attempt');
    if (before.state === 'dead') {
      life.redrives.push(seq);
      this.#checkKey(life.ask, seq);
    } else if (after.tries < before.tries) wrong('gets tries back');
    life.job = after;
    life.states.push(after.state);
  }

  #attempt(token: string, after: AttemptRecord, cause: string, seq: number): void {
    const lives = this.lives.get(jobOfToken(token)) ?? [];
    const life = lives.at(-1);
    const wrong = (what: string): void => {
      this.problems.push(`change ${seq}: attempt ${token} ${what}`);
    };
    if (!life || tokenOf(life.uid, after.n) !== token) return wrong('belongs to no job');
    const before = life.attempts.get(after.n);
    if (before) {
      const from = before.record.state;
      // A job that comes back from the history brings its past along, as it was.
      if (cause === 'redrive' && stableHash(after) === stableHash(before.record)) return;
      if (!isOpen(from)) wrong(`changes after it was ${from}`);
      else if (from !== after.state && !mayMoveAttempt(from, after.state)) wrong(`${from} -> ${after.state}`);
      before.record = after;
      return;
    }
    if (after.state !== 'intended') wrong(`begins as ${after.state}`);
    const highest = Math.max(0, ...lives.flatMap(({ attempts }) => [...attempts.keys()]));
    if (after.n <= highest) wrong(`comes after attempt ${highest}`);
    const open = [...life.attempts.values()].find(({ record }) => isOpen(record.state));
    if (open) wrong(`begins while attempt ${open.record.n} is open`);
    life.attempts.set(after.n, { record: after, seq });
  }

  #brain(after: BrainRecord, cause: string, seq: number): void {
    const before = this.brain;
    const grows = cause === 'open' ? (before?.epoch ?? 0) + 1 : before?.epoch;
    if (after.epoch !== grows) this.problems.push(`change ${seq}: epoch ${before?.epoch} -> ${after.epoch}`);
    if (before && before.owner !== after.owner) this.problems.push(`change ${seq}: the owner changed`);
    if (after.attemptFloor < (before?.attemptFloor ?? 0))
      this.problems.push(`change ${seq}: the attempt floor fell`);
    this.brain = after;
  }
}

export function replay(changes: readonly LoggedChange[], historyMs: number): Replayed {
  const replayed = new Replay(historyMs);
  for (const change of changes) replayed.add(change);
  return replayed;
}

/** The life that an attempt number belongs to; the last one where there was none. */
export function lifeOf(replayed: Replayed, uid: string, attempt: number): Life | undefined {
  const lives = replayed.lives.get(uid) ?? [];
  return lives.find(({ attempts }) => attempts.has(attempt)) ?? lives.at(-1);
}
