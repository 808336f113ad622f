/** From requests to admitted jobs: checks, bodies and the look into the history before the engine decides. */

import type { Submission } from '../core/admission/submission.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { SubmitAnswer } from '../core/engine/jobs.ts';
import type { EndedJob, Store } from '../core/ports/store.ts';
import { Budget } from '../kit/budget.ts';
import type { Env } from '../kit/env/env.ts';
import { IdMaker } from '../kit/ids.ts';
import { OrchdError } from '../model/errors.ts';
import type { Submitted } from '../model/http/jobs.ts';
import { type Body, DEFAULT_TENANT, uidOf } from '../model/records.ts';
import type { SubmitRequest } from '../model/submit.ts';
import type { Bodies } from './bodies.ts';
import type { Loop } from './loop.ts';
import type { Observed, Observer } from './observer.ts';
import { type Caller, type Prepared, prepare, withPayload } from './prepare.ts';

export type SubmitOutcome = Submitted | OrchdError;

/** Characters of the bodies of one bulk that are on their way to the store: it refuses what is too much. */
const BODIES_AT_ONCE = 16 * 2 ** 20;

export interface SubmissionsParts {
  readonly env: Env;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Store;
  readonly bodies: Bodies;
  readonly maxTries: number;
  readonly maxPayloadBytes: number;
  /** Is told the answer to every submit, whoever made it. */
  readonly observer: Observer | undefined;
  readonly observed: Observed;
}

/** A submission, and what had left memory when the history was asked about it. */
interface Looked {
  readonly submission: Prepared;
  readonly uid: string;
  evictions: number;
}

export class Submissions {
  readonly #parts: SubmissionsParts;
  /** Grows when ended jobs leave memory: a look into the history that began before must be repeated. */
  #evictions = 0;

  readonly #ids: IdMaker;

  constructor(parts: SubmissionsParts) {
    this.#parts = parts;
    this.#ids = new IdMaker(parts.env.random);
  }

  noteEviction(): void {
    this.#evictions++;
  }

  submitOne(request: SubmitRequest, caller: Caller): Promise<Submitted> {
    const submitting = this.#submitOne(request, caller);
    if (!this.#parts.observer) return submitting;
    // Without `await`, which costs as much as the rest of what happens here.
    return submitting.then(
      (answer) => {
        this.#tell(answer, caller);
        return answer;
      },
      (error: unknown) => {
        this.noteRefusal(error);
        throw error;
      },
    );
  }

  /** One answer per request, in one commit. */
  async submit(requests: readonly SubmitRequest[], caller: Caller): Promise<readonly SubmitOutcome[]> {
    try {
      const answers = await this.#submit(requests, caller);
      for (const answer of answers) this.#tell(answer, caller);
      return answers;
    } catch (error) {
      for (const _ of requests) this.noteRefusal(error);
      throw error;
    }
  }

  /** Tells the observer of a refused submit, also of one that was refused before it came here. */
  noteRefusal(error: unknown): void {
    if (error instanceof OrchdError) this.#parts.observer?.refused?.(error);
  }

  #tell(answer: SubmitOutcome, caller: Caller): void {
    const { observer, observed } = this.#parts;
    if (answer instanceof OrchdError) this.noteRefusal(answer);
    else observer?.submitted?.(answer, uidOf(caller.tenant ?? DEFAULT_TENANT, answer.job_id), observed);
  }

  /** The common case without a detour: one small job whose id is ours. */
  #submitOne(request: SubmitRequest, caller: Caller): Promise<Submitted> {
    try {
      if (this.#parts.store.overloaded) throw new OrchdError('STORE_BUSY');
      const ready = this.#ready(request, caller);
      if (!(ready instanceof Promise)) return this.#ask(ready, request, caller);
      return ready.then(async (looked) => {
        await this.#lookAgain([looked]);
        return this.#ask(looked.submission, request, caller);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #ask(submission: Submission, request: SubmitRequest, caller: Caller): Promise<Submitted> {
    return this.#parts.loop.ask({ type: 'submit', submissions: [submission] }).then((reply) => {
      const [answer] = reply as readonly [SubmitAnswer | OrchdError];
      if (!(answer instanceof OrchdError)) return submitted(answer);
      // What it repeated was seen in memory and left it meanwhile: now the history has it.
      if (answer.code === 'STORE_BUSY' && !submission.bodyStored) return this.#submitOne(request, caller);
      throw answer;
    });
  }

  async #submit(requests: readonly SubmitRequest[], caller: Caller): Promise<readonly SubmitOutcome[]> {
    if (this.#parts.store.overloaded) throw new OrchdError('STORE_BUSY');
    const submissions: Submission[] = [];
    const looked: Looked[] = [];
    const answers: (SubmitOutcome | undefined)[] = [];
    // All at once: a store that is asked about many in one turn looks for them together.
    const bytes = new Budget(BODIES_AT_ONCE);
    const begun = requests.map((request) =>
      orRefused<Submission | Looked>(() => this.#ready(request, caller, bytes)),
    );
    for (const ready of await Promise.all(begun)) {
      const isRefused = ready instanceof OrchdError;
      answers.push(isRefused ? ready : undefined);
      if (isRefused) continue;
      if ('submission' in ready) looked.push(ready);
      submissions.push('submission' in ready ? ready.submission : ready);
    }
    await this.#lookAgain(looked);
    if (submissions.length > 0) await this.#admit(submissions, answers);
    return answers as SubmitOutcome[];
  }

  /** An ended job that has left memory; asked again when one left while we looked. */
  async known(uid: string): Promise<EndedJob | undefined> {
    for (;;) {
      if (this.#parts.engine.state.jobs.has(uid)) return undefined;
      const evictions = this.#evictions;
      const bundle = await this.#parts.store.history.get(uid);
      if (bundle) return bundle;
      if (evictions === this.#evictions) return undefined;
    }
  }

  /** `bytes` bounds what is put away at once. */
  #ready(request: SubmitRequest, caller: Caller, bytes?: Budget): Submission | Promise<Looked> {
    const { env, bodies, maxTries, engine } = this.#parts;
    const makeId = (): string => this.#ids.next(env.clock.now());
    const { submission, payloadText } = prepare(request, caller, makeId, maxTries);
    const inline = bodies.inline(payloadText);
    const callerChoseId = submission.hash !== undefined;
    // What cannot be there already is refused without the store, whose last room is for what is.
    if (engine.state.full && !callerChoseId && submission.spec.key === undefined)
      throw new OrchdError('STORE_FULL');
    if (inline !== undefined && !callerChoseId) return withPayload(submission, inline, undefined);
    return this.#readySlowly(submission, payloadText, bytes);
  }

  /** With a look into the history, or a body to put away first; neither for a job that is there already. */
  async #readySlowly(submission: Prepared, payloadText: string, bytes?: Budget): Promise<Looked> {
    const { engine, bodies, maxPayloadBytes } = this.#parts;
    const uid = uidOf(submission.tenant, submission.id);
    const evictions = this.#evictions;
    const known = submission.hash === undefined ? undefined : await this.known(uid);
    const { state } = engine;
    const isDuplicate =
      known !== undefined ||
      state.jobs.has(uid) ||
      (submission.spec.key !== undefined &&
        state.roster.byKey(submission.tenant, submission.spec.key) !== undefined);
    const refused = isDuplicate || submission.payloadBytes > maxPayloadBytes || state.full;
    const store = (): Promise<Body> => bodies.store(payloadText);
    const payload = refused ? undefined : await (bytes?.spend(payloadText.length, store) ?? store());
    withPayload(submission, payload, known);
    return { submission, uid, evictions };
  }

  /**
   * What the history said holds only while nothing has left memory: a job of the same id may have come, run and
   * gone since. Returns in the turn in which all of it holds.
   */
  async #lookAgain(looked: readonly Looked[]): Promise<void> {
    const isStale = ({ submission, evictions }: Looked): boolean =>
      submission.hash !== undefined && evictions !== this.#evictions;
    // Together: one after the other, more would have left memory before the last was looked at.
    for (let stale = looked.filter(isStale); stale.length > 0; stale = looked.filter(isStale)) {
      await Promise.all(
        stale.map(async (look) => {
          look.evictions = this.#evictions;
          look.submission.known = await this.known(look.uid);
        }),
      );
    }
    // Here now, and perhaps gone when the engine decides: then it must not be taken for a new one.
    for (const { submission, uid } of looked) {
      if (this.#parts.engine.state.jobs.has(uid)) submission.bodyStored = false;
    }
  }

  async #admit(submissions: readonly Submission[], answers: (SubmitOutcome | undefined)[]): Promise<void> {
    const reply = await this.#parts.loop.ask({ type: 'submit', submissions });
    const replies = reply as readonly (SubmitAnswer | OrchdError)[];
    let next = 0;
    for (const [at, answer] of answers.entries()) {
      if (answer !== undefined) continue;
      const decided = replies[next++] as SubmitAnswer | OrchdError;
      answers[at] = decided instanceof OrchdError ? decided : submitted(decided);
    }
  }
}

/** What it returns; or the error by which it refuses, as a value. */
async function orRefused<T>(run: () => T | Promise<T>): Promise<T | OrchdError> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}

function submitted(answer: SubmitAnswer): Submitted {
  const told: { -readonly [K in keyof Submitted]: Submitted[K] } = {
    job_id: answer.id,
    status: answer.status,
  };
  if (answer.queuePosition !== undefined) told.queue_position = answer.queuePosition;
  if (answer.predictedStartMs !== undefined) told.predicted_start_ms = answer.predictedStartMs;
  if (answer.duplicateOf !== undefined) told.duplicate_of = answer.duplicateOf;
  return told;
}
