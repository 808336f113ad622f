/**
 * Turns requests into admitted jobs: checks them, stores large bodies and looks up the history before the engine
 * decides.
 */

import type { Submission } from '../core/admission/submission.ts';
import type { KnownEnds } from '../core/attempts/dependencies.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { SubmitAnswer } from '../core/engine/jobs.ts';
import type { EndedJob, Store } from '../core/ports/store.ts';
import { Budget } from '../kit/budget.ts';
import type { Env } from '../kit/env/env.ts';
import { IdMaker } from '../kit/ids.ts';
import { newMeter } from '../kit/json-writer.ts';
import { inSlices, nextTurn, type OwnTurns, ownTurns } from '../kit/slices.ts';
import type { Body } from '../model/body.ts';
import type { Composition } from '../model/composed.ts';
import { OrchdError } from '../model/errors.ts';
import type { Submitted } from '../model/http/jobs.ts';
import { type AskRecord, DEFAULT_TENANT, uidOf } from '../model/records.ts';
import type { SubmitRequest } from '../model/submit.ts';
import type { Bodies, TextOwner } from './bodies.ts';
import { JobsBelow } from './jobs-below.ts';
import { knownEnds } from './known-ends.ts';
import type { Loop } from './loop.ts';
import type { ObservedState, Observer } from './observer.ts';
import type { Children } from './outcomes.ts';
import {
  type Caller,
  type DraftSubmission,
  type Prepared,
  prepare,
  prepareInSlices,
  withPayload,
} from './prepare.ts';
import { preparedInSlices, preparedNow } from './prepare-all.ts';
import type { SessionArchive } from './session-archive.ts';
import { isOvertaken, mayHaveEnded, needsHistory, orRefusal, submittedOf } from './submit-answers.ts';

export type SubmitOutcome = Submitted | OrchdError;

/**
 * Characters of one bulk's bodies that may be on their way to the store at once: the store refuses more than it can
 * take.
 */
const MAX_BODY_CHARS_IN_FLIGHT = 16 * 2 ** 20;

export interface SubmissionsParts {
  readonly env: Env;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Store;
  readonly bodies: Bodies;
  readonly sessionArchive: SessionArchive;
  readonly maxTries: number;
  readonly maxPayloadBytes: number;
  /** Receives the answer to each submit. */
  readonly observer: Observer | undefined;
  readonly observed: ObservedState;
}

/** A submission, with the number of evictions at the time when the history was read for it. */
interface CheckedSubmission {
  readonly submission: DraftSubmission;
  readonly isNewId: boolean;
  readonly uid: string;
  evictions: number;
}

/** A submission that needed no look into the history, or one with what was found there. */
type Ready = Submission | CheckedSubmission;

export class Submissions {
  readonly #parts: SubmissionsParts;
  /** Counts evictions of ended jobs from memory: a history lookup that began before the last one must be repeated. */
  #evictions = 0;

  readonly #newId: () => string;
  /** Bulks that arrive together are prepared one in each turn, and answered so: each takes some milliseconds. */
  readonly #turns: OwnTurns;
  /** Jobs below others, which their executions ask for. */
  readonly children: Children;

  constructor(parts: SubmissionsParts) {
    this.#parts = parts;
    this.#turns = ownTurns(parts.env.timers);
    const ids = new IdMaker(parts.env.random);
    this.#newId = () => ids.next(parts.env.clock.now());
    this.children = new JobsBelow({
      timers: parts.env.timers,
      turns: this.#turns,
      newId: this.#newId,
      maxTries: parts.maxTries,
      storeNow: (prepared) => this.#storeNow(prepared),
      store: (prepared, composed) => this.#storedAndChecked(prepared, composed),
    });
  }

  /** How often ended jobs have left memory: what was read from the history before may be out of date. */
  get evictions(): number {
    return this.#evictions;
  }

  noteEviction(): void {
    this.#evictions++;
  }

  submitOne(request: SubmitRequest, caller: Caller): Promise<Submitted> {
    const submitting = this.#submitOne(request, caller);
    if (!this.#parts.observer) return submitting;
    // Uses `then` because `await` would cost as much as the rest of this function, on the hot path of each submit.
    return submitting.then(
      (answer) => {
        this.noteAnswer(answer, caller);
        return answer;
      },
      (error: unknown) => {
        this.noteRefusal(error, caller);
        throw error;
      },
    );
  }

  /** Submits jobs in one commit; returns an answer for each. */
  async submit(requests: readonly SubmitRequest[], caller: Caller): Promise<readonly SubmitOutcome[]> {
    try {
      const answers = await this.#submit(requests, caller);
      for (const answer of answers) this.noteAnswer(answer, caller);
      return answers;
    } catch (error) {
      for (const _ of requests) this.noteRefusal(error, caller);
      throw error;
    }
  }

  /** Throws if the request would be refused whatever the state of the brain is. */
  check(request: SubmitRequest, caller: Caller): void {
    prepare(request, caller, this.#newId, this.#parts.maxTries);
  }

  /** A request as the engine takes it, checked and stored: it must be sent to the engine in the turn in which this resolves. */
  async ready(request: SubmitRequest, caller: Caller): Promise<Submission> {
    if (this.#parts.store.overloaded) throw new OrchdError('STORE_BUSY');
    const ready = await this.#prepare(request, caller);
    if (!('submission' in ready)) return ready;
    await this.#recheckHistory([ready]);
    return ready.submission;
  }

  /** Reports a refused submit to the observer; also called for submits that were refused before they came here. */
  noteRefusal(error: unknown, caller: Caller): void {
    if (error instanceof OrchdError && !caller.isModule) this.#parts.observer?.refused?.(error, caller);
  }

  /** Reports the answer to a submit to the observer. */
  noteAnswer(answer: SubmitOutcome, caller: Caller): void {
    const { observer, observed } = this.#parts;
    if (answer instanceof OrchdError) this.noteRefusal(answer, caller);
    else observer?.submitted?.(answer, uidOf(caller.tenant ?? DEFAULT_TENANT, answer.job_id), observed);
  }

  /** Submits one job; synchronous up to the engine for a small job whose id is generated, which is the common case. */
  #submitOne(request: SubmitRequest, caller: Caller): Promise<Submitted> {
    try {
      if (this.#parts.store.overloaded) throw new OrchdError('STORE_BUSY');
      const ready = this.#prepare(request, caller);
      if (!(ready instanceof Promise)) return this.#send(ready, request, caller);
      return ready.then(async (checked) => {
        await this.#recheckHistory([checked]);
        return this.#send(checked.submission, request, caller);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #send(submission: Submission, request: SubmitRequest, caller: Caller): Promise<Submitted> {
    return this.#parts.loop.ask({ type: 'submit', submissions: [submission] }).then((reply) => {
      const [answer] = reply as readonly [SubmitAnswer | OrchdError];
      if (!(answer instanceof OrchdError)) return submittedOf(answer);
      if (isOvertaken(answer, submission)) return this.#submitOne(request, caller);
      throw answer;
    });
  }

  async #submit(requests: readonly SubmitRequest[], caller: Caller): Promise<readonly SubmitOutcome[]> {
    if (this.#parts.store.overloaded) throw new OrchdError('STORE_BUSY');
    const submissions: Submission[] = [];
    const checked: CheckedSubmission[] = [];
    const answers: (SubmitOutcome | undefined)[] = [];
    const prepared = await this.#prepareAll(requests, caller);
    for (const ready of await this.#storeAll(prepared)) {
      const isRefused = ready instanceof OrchdError;
      answers.push(isRefused ? ready : undefined);
      if (isRefused) continue;
      if ('submission' in ready) checked.push(ready);
      submissions.push('submission' in ready ? ready.submission : ready);
    }
    await this.#recheckHistory(checked);
    const overtakenFrom = submissions.length > 0 ? await this.#admit(submissions, answers) : undefined;
    if (overtakenFrom === undefined) return answers as SubmitOutcome[];
    // Those behind it may have been refused because they wait for it.
    const again = answers.flatMap((answer, at) =>
      at >= overtakenFrom && answer instanceof OrchdError ? [at] : [],
    );
    const repeated = await this.#submit(
      again.map((at) => requests[at] as SubmitRequest),
      caller,
    );
    for (const [nth, at] of again.entries()) answers[at] = repeated[nth];
    return answers as SubmitOutcome[];
  }

  /** Finds an ended job that was evicted from memory; repeats the lookup if another eviction happened meanwhile. */
  async findEvicted(uid: string): Promise<EndedJob | undefined> {
    for (;;) {
      if (this.#parts.engine.state.jobs.has(uid)) return undefined;
      const evictions = this.#evictions;
      const bundle = await this.#parts.store.history.get(uid);
      if (bundle) return bundle;
      if (evictions === this.#evictions) return undefined;
    }
  }

  /** How the jobs of `after` have ended that are no longer in memory. */
  knownEnds(job: Pick<AskRecord, 'tenant' | 'spec'>): Promise<KnownEnds | undefined> {
    const { engine, env } = this.#parts;
    const find = (uid: string): Promise<EndedJob | undefined> => this.findEvicted(uid);
    return knownEnds({ state: engine.state, timers: env.timers, find }, job);
  }

  #prepare(request: SubmitRequest, caller: Caller): Submission | Promise<CheckedSubmission> {
    if (caller.bodySize !== 'large')
      return this.#store(prepare(request, caller, this.#newId, this.#parts.maxTries));
    return this.#prepareLarge(request, caller);
  }

  async #prepareLarge(request: SubmitRequest, caller: Caller): Promise<CheckedSubmission> {
    const { env, maxTries } = this.#parts;
    const preparing = prepareInSlices(request, caller, this.#newId, maxTries, newMeter());
    const { submission, payloadText } = await inSlices(preparing, env.timers);
    await nextTurn(env.timers);
    if (submission.spec.session_id !== undefined) submission.session = this.#parts.sessionArchive.withoutLook;
    return this.#checkAndStore({ submission, payloadText });
  }

  async #prepareAll(
    requests: readonly SubmitRequest[],
    caller: Caller,
  ): Promise<readonly (Prepared | OrchdError)[]> {
    const { env, maxTries } = this.#parts;
    if (caller.bodySize !== 'large') {
      await this.#turns.next();
      return preparedNow(requests, caller, this.#newId, maxTries);
    }
    const prepared = await inSlices(preparedInSlices(requests, caller, this.#newId, maxTries), env.timers);
    await nextTurn(env.timers);
    return prepared;
  }

  async #storedAndChecked(
    prepared: readonly (Prepared | OrchdError)[],
    composed: (at: number) => Composition | undefined,
  ): Promise<readonly (Submission | OrchdError)[]> {
    const ready = await this.#storeAll(prepared, composed);
    await this.#recheckHistory(ready.filter((each) => 'submission' in each));
    return ready.map((each) => ('submission' in each ? each.submission : each));
  }

  /** Begins all lookups in one turn: the store then combines them into one query. */
  #storeAll(
    prepared: readonly (Prepared | OrchdError)[],
    composed?: (at: number) => Composition | undefined,
  ): Promise<readonly (Ready | OrchdError)[]> {
    const bytes = new Budget(MAX_BODY_CHARS_IN_FLIGHT);
    const begun = prepared.map((each, at) =>
      each instanceof OrchdError ? each : orRefusal<Ready>(() => this.#store(each, bytes, composed?.(at))),
    );
    return Promise.all(begun);
  }

  /** Stores the payload, unless it is small; `bytes` limits those that are being stored at once. */
  #store(
    prepared: Prepared,
    bytes?: Budget,
    composition?: Composition,
  ): Submission | Promise<CheckedSubmission> {
    return this.#storeNow(prepared) ?? this.#checkAndStore(prepared, bytes, composition);
  }

  /** The submission, if its payload is small and nothing must be read for it. */
  #storeNow(prepared: Prepared): Submission | undefined {
    const { bodies, engine, sessionArchive } = this.#parts;
    const { submission, payloadText } = prepared;
    const inline = bodies.inline(payloadText, textOwner(submission));
    if (submission.spec.session_id !== undefined) submission.session = sessionArchive.withoutLook;
    const callerChoseId = submission.hash !== undefined;
    // On a full disk a job that cannot be a duplicate is refused without a lookup: the space left is for jobs that
    // exist.
    if (engine.state.full && !callerChoseId && submission.spec.key === undefined)
      throw new OrchdError('STORE_FULL');
    if (inline === undefined || needsHistory(prepared) || this.#needsSession(submission)) return undefined;
    return withPayload(submission, inline, undefined);
  }

  #needsSession({ tenant, spec }: DraftSubmission): boolean {
    return spec.session_id !== undefined && this.#parts.sessionArchive.needsLook(tenant, spec.session_id);
  }

  /** Looks up the history and stores the body first, unless the job exists already or will be refused. */
  async #checkAndStore(
    { submission, payloadText, isNewId = false }: Prepared,
    bytes?: Budget,
    composition?: Composition,
  ): Promise<CheckedSubmission> {
    const { engine, bodies, sessionArchive, maxPayloadBytes } = this.#parts;
    const uid = uidOf(submission.tenant, submission.id);
    const evictions = this.#evictions;
    const known = mayHaveEnded({ submission, isNewId }) ? await this.findEvicted(uid) : undefined;
    submission.ends = await this.knownEnds(submission);
    if (this.#needsSession(submission))
      submission.session = await sessionArchive.look(submission.tenant, submission.spec.session_id as string);
    const { state } = engine;
    const isDuplicate =
      known !== undefined ||
      state.jobs.has(uid) ||
      (submission.spec.key !== undefined &&
        state.roster.byKey(submission.tenant, submission.spec.key) !== undefined);
    const refused = isDuplicate || submission.payloadBytes > maxPayloadBytes || state.full;
    const owner = textOwner(submission);
    const isComposed = composition && !bodies.fitsInline(payloadText, owner);
    const store = (): Promise<Body> =>
      isComposed ? bodies.compose(composition, owner) : bodies.store(payloadText, owner);
    const payload = refused ? undefined : await (bytes?.spend(payloadText.length, store) ?? store());
    withPayload(submission, payload, known);
    return { submission, isNewId, uid, evictions };
  }

  /**
   * A history lookup is valid only while nothing is evicted: since then, a job of the same id may have been submitted,
   * run and evicted. Returns in a turn in which all lookups are valid.
   */
  async #recheckHistory(checked: readonly CheckedSubmission[]): Promise<void> {
    const isStale = (each: CheckedSubmission): boolean =>
      needsHistory(each) && each.evictions !== this.#evictions;
    // All stale lookups are repeated together: one after the other, evictions would make the first stale again.
    for (let stale = checked.filter(isStale); stale.length > 0; stale = checked.filter(isStale)) {
      await Promise.all(
        stale.map(async (each) => {
          each.evictions = this.#evictions;
          if (mayHaveEnded(each)) each.submission.known = await this.findEvicted(each.uid);
          each.submission.ends = await this.knownEnds(each.submission);
        }),
      );
    }
    // This job is in memory now. If it is evicted before the engine decides, the engine must not take the submit for a
    // new job.
    for (const { submission, uid } of checked) {
      if (this.#parts.engine.state.jobs.has(uid)) submission.bodyStored = false;
    }
  }

  /** Fills in the answers that are missing; returns the place of the first submission that was overtaken. */
  async #admit(
    submissions: readonly Submission[],
    answers: (SubmitOutcome | undefined)[],
  ): Promise<number | undefined> {
    const reply = await this.#parts.loop.ask({ type: 'submit', submissions });
    const replies = reply as readonly (SubmitAnswer | OrchdError)[];
    await this.#turns.next();
    let next = 0;
    let overtakenFrom: number | undefined;
    for (const [at, answer] of answers.entries()) {
      if (answer !== undefined) continue;
      const decided = replies[next] as SubmitAnswer | OrchdError;
      const isLate = decided instanceof OrchdError && isOvertaken(decided, submissions[next] as Submission);
      if (isLate) overtakenFrom ??= at;
      answers[at] = decided instanceof OrchdError ? decided : submittedOf(decided);
      next++;
    }
    return overtakenFrom;
  }
}

const textOwner = ({ tenant, spec }: Submission): TextOwner => ({ tenant, session: spec.session_id });
