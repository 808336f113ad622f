/**
 * Carries out what is due. For every open attempt there is at most one action under way (an offer, a question,
 * a kill) and at most one reader of its events; both end by posting what they learned to the loop.
 *
 * An action that gets no answer tries again with growing pauses for as long as it is due.
 */

import { afterOutput } from '../core/attempts/ending.ts';
import { mayBeSpared } from '../core/attempts/progress.ts';
import type { Finding, KillAnswer } from '../core/attempts/reports.ts';
import { due, dueFor, type Effect, type EffectKind } from '../core/engine/due.ts';
import type { Engine } from '../core/engine/engine.ts';
import type {
  Backend,
  ExecutionEvent,
  ExecutionOutcome,
  Inspection,
  KillReply,
  OfferReply,
  Outcome,
  UsedTokens,
} from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { commanderOf } from '../core/state/state.ts';
import { backoffMs } from '../kit/backoff.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { errorInfo, OrchdError } from '../model/errors.ts';
import type { AttemptRecord, Body, Change } from '../model/records.ts';
import type { Commander } from '../model/worker-wire.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Bodies } from './bodies.ts';
import type { Loop } from './loop.ts';

const RETRY = { baseDelayMs: 50, maxDelayMs: 1000, jitter: 0.5 };

/** One reader of an executor's events: how far it is, and since when it has heard nothing. */
interface Reading {
  readonly entry: JobEntry;
  readonly token: string;
  readonly backend: Backend;
  from: number;
  since: number;
  tries: number;
  hasOutput: boolean;
}

export interface EffectsParts {
  readonly env: Env;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly bodies: Bodies;
  readonly backends: BackendDirectory;
  readonly holderLostMs: number;
  readonly onEvent: (entry: JobEntry, event: ExecutionEvent) => void;
}

export class Effects {
  readonly #parts: EffectsParts;
  /** `<kind> <token>`: a kill goes out beside an offer that has not come back. */
  readonly #acting = new Set<string>();
  /** The attempts whose offer is out, until what came of it is durable. */
  readonly #offering = new Map<JobEntry, string>();
  readonly #following = new Map<JobEntry, string>();
  #stopped = false;

  constructor(parts: EffectsParts) {
    this.#parts = parts;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Starts what is due for one job; its records are durable. */
  update(entry: JobEntry): void {
    const effect = dueFor(this.#parts.engine, entry);
    if (effect?.kind !== 'offer') this.#offering.delete(entry);
    if (!entry.open) this.#following.delete(entry);
    if (effect) this.#begin(effect);
  }

  /** Finds everything that should be under way and is not. */
  sweep(durableSeq: number): void {
    for (const effect of due(this.#parts.engine)) {
      if (effect.after <= durableSeq) this.#begin(effect);
    }
    for (const { up, info } of this.#parts.engine.queue.fleet.backends.values())
      if (!up) this.#probe(info.name);
  }

  /** A backend that gave no answer holds nothing that would be asked about again: ask for its own sake. */
  #probe(name: string): void {
    const backend = this.#parts.backends.get(name);
    if (!backend || this.#stopped || this.#acting.has(`probe ${name}`)) return;
    this.#acting.add(`probe ${name}`);
    backend
      .inspect([], this.#who())
      .then(({ registry }) => this.#heard(backend, registry), ignore)
      .finally(() => this.#acting.delete(`probe ${name}`));
  }

  /** Executors may let go of the attempts whose end is among these changes, which are durable. */
  acknowledge(changes: readonly Change[]): void {
    if (this.#stopped) return;
    for (const { kind, id, after } of changes) {
      if (kind !== 'attempt' || after?.state !== 'ended') continue;
      crashpoint('effect:before-ack');
      // Lost acknowledgements do no harm: executors drop what is old by themselves.
      this.#parts.backends.get(after.backend)?.ack(id, this.#who()).catch(ignore);
    }
  }

  #begin(effect: Effect): void {
    if (this.#stopped) return;
    const { token, kind } = effect;
    const backend = this.#parts.backends.get(effect.backend);
    if (!backend) {
      this.#parts.loop.post({ type: 'lost', token });
      return;
    }
    if (kind === 'follow') this.#follow(token, backend);
    else if (kind === 'offer') this.#offer(token, backend);
    else if (!this.#acting.has(actionOf(effect))) {
      this.#acting.add(actionOf(effect));
      void this.#act(effect, backend);
    }
  }

  async #act(effect: Effect, backend: Backend): Promise<void> {
    const { token, kind } = effect;
    const { clock } = this.#parts.env;
    let heardAt = clock.monotonic();
    for (let tries = 1; this.#isDue(token, kind); tries++) {
      try {
        if (await this.#once(token, kind, backend)) break;
        heardAt = clock.monotonic();
      } catch (error) {
        if (isFenced(error)) return this.#parts.loop.fail(error as Error);
        if (kind === 'inspect') this.#unanswered(token, heardAt);
      }
      await this.#pause(backoffMs(RETRY, tries, this.#parts.env.random.next()));
    }
    this.#acting.delete(actionOf(effect));
    const entry = this.#parts.engine.state.open.get(token);
    // The same may be due again after a detour; anything else began when its cause was durable.
    if (entry && this.#isDue(token, kind))
      this.#parts.loop.durable(entry.seq).then(() => this.update(entry), ignore);
  }

  /** One try; true when it is settled, false when it must be asked again. */
  #once(token: string, kind: EffectKind, backend: Backend): Promise<boolean> {
    return kind === 'inspect' ? this.#inspect(token, backend) : this.#kill(token, backend);
  }

  #isDue(token: string, kind: EffectKind): boolean {
    const { state } = this.#parts.engine;
    const entry = state.open.get(token);
    return !this.#stopped && entry !== undefined && dueFor(this.#parts.engine, entry)?.kind === kind;
  }

  /** Once: an offer that gets no answer makes the attempt unknown, and then it is asked about. */
  #offer(token: string, backend: Backend): void {
    const entry = this.#parts.engine.state.open.get(token);
    if (!entry || this.#offering.get(entry) === token) return;
    this.#offering.set(entry, token);
    const { payload } = entry.ask;
    if (typeof payload === 'string') return this.#send(token, entry, payload, backend);
    void this.#readThenSend(token, entry, payload, backend);
  }

  /** A body that cannot be read now is tried again; one that is damaged never will be. */
  async #readThenSend(token: string, entry: JobEntry, payload: Body, backend: Backend): Promise<void> {
    for (let tries = 1; this.#isDue(token, 'offer'); tries++) {
      try {
        return this.#send(token, entry, await this.#parts.bodies.read(payload), backend);
      } catch (error) {
        const info = error instanceof OrchdError ? error.info() : errorInfo('STORE_FAILED');
        if (!info.retriable) return this.#answered(token, backend, { is: 'refused', error: info });
        await this.#pause(backoffMs(RETRY, tries, this.#parts.env.random.next()));
      }
    }
    if (this.#offering.get(entry) === token) this.#offering.delete(entry);
  }

  #send(token: string, entry: JobEntry, payloadText: string, backend: Backend): void {
    // Its body took a while: the attempt may be settled by now, and another one open.
    if (this.#stopped || !entry.open || entry.token !== token) return;
    const { n: attempt, registry } = entry.open;
    crashpoint('effect:before-offer');
    backend.offer({ ...this.#who(), token, ask: entry.ask, payloadText, attempt, registry }).then(
      (answer) => this.#answered(token, backend, answer),
      () => this.#answered(token, backend, { is: 'unknown' }),
    );
  }

  #answered(token: string, backend: Backend, answer: OfferReply | { readonly is: 'unknown' }): void {
    crashpoint('effect:after-offer');
    if (this.#stopped) return;
    if (answer.is === 'fenced') return this.#parts.loop.fail(new OrchdError('FENCED'));
    this.#parts.loop.post({ type: 'offered', token, answer });
    // Reading needs no commit of ours, and an answer that is quick then shares its flush.
    if (answer.is === 'accepted') this.#follow(token, backend);
  }

  async #inspect(token: string, backend: Backend): Promise<boolean> {
    const inspection = await backend.inspect([token], this.#who());
    this.#heard(backend, inspection.registry);
    const attempt = this.#parts.engine.state.open.get(token)?.open;
    if (!attempt) return true;
    const finding = await this.#finding(token, attempt, inspection);
    const held =
      finding.is === 'forgotten' && attempt.state === 'unknown' && attempt.epoch === this.#who().epoch;
    await this.#parts.loop.ask({ type: 'found', token, finding });
    // A held unknown stays due: the executor may remember after all, and asking costs little.
    return !held;
  }

  async #finding(token: string, attempt: AttemptRecord, inspection: Inspection): Promise<Finding> {
    const status = inspection.known.get(token);
    if (status?.is === 'running' || status?.is === 'forgotten') return status;
    if (status) return { is: 'ended', outcome: await this.#stored(checked(status.outcome)) };
    // Of a token that it had accepted, silence means that it has forgotten, whatever it says of its memory.
    const neverHadIt = remembers(inspection, attempt) && attempt.acceptedAt === undefined;
    return neverHadIt ? { is: 'absent' } : { is: 'forgotten' };
  }

  async #kill(token: string, backend: Backend): Promise<boolean> {
    crashpoint('effect:before-kill');
    const ordered = this.#parts.engine.state.open.get(token);
    if (!ordered) return true;
    const reply = await backend.kill(token, this.#who(), mayBeSpared(ordered) ? 'bury' : 'end');
    const attempt = this.#parts.engine.state.open.get(token)?.open;
    if (!attempt) return true;
    if (reply.is === 'fenced') throw new OrchdError('FENCED');
    if (reply.is === 'tombstoned') this.#heard(backend, reply.registry);
    if (reply.is === 'stopping') {
      // Its end is seen by the reader, or by asking again.
      this.#follow(token, backend);
      return false;
    }
    await this.#parts.loop.ask({ type: 'killed', token, answer: await this.#killAnswer(reply, attempt) });
    return true;
  }

  async #killAnswer(
    reply: Exclude<KillReply, { is: 'fenced' | 'stopping' }>,
    attempt: AttemptRecord,
  ): Promise<KillAnswer> {
    if (reply.is === 'running') return reply;
    if (reply.is === 'ended') return { is: 'ended', outcome: await this.#stored(checked(reply.outcome)) };
    return { is: remembers(reply, attempt) ? 'tombstoned' : 'forgotten' };
  }

  #follow(token: string, backend: Backend): void {
    const entry = this.#parts.engine.state.open.get(token);
    if (!entry || this.#following.get(entry) === token || this.#stopped) return;
    this.#following.set(entry, token);
    this.#read({
      entry,
      token,
      backend,
      from: 0,
      since: this.#parts.env.clock.monotonic(),
      tries: 1,
      hasOutput: false,
    });
  }

  /** Reads until the end; a reader that loses its executor tries again for a while, then says so. */
  #read(reading: Reading): void {
    const { entry, token, backend } = reading;
    const { env, onEvent } = this.#parts;
    const hear = (event: ExecutionEvent): void => {
      if (event.n <= reading.from || entry.token !== token || this.#stopped) return;
      reading.from = event.n;
      reading.since = env.clock.monotonic();
      if (event.type === 'token' && !reading.hasOutput) this.#noteOutput(reading);
      onEvent(entry, event);
    };
    backend.follow(token, reading.from, hear, this.#who()).then(
      (end) => (end.is === 'ended' ? this.#ended(token, end.outcome) : this.#readAgain(reading)),
      () => this.#readAgain(reading),
    );
  }

  /** Worth telling only where it decides whether another try may follow. */
  #noteOutput(reading: Reading): void {
    reading.hasOutput = true;
    const { entry, token } = reading;
    if (afterOutput(entry.ask) === 'fail') this.#parts.loop.post({ type: 'output', token });
  }

  #readAgain(reading: Reading): void {
    const { entry, token } = reading;
    const { env, loop, holderLostMs } = this.#parts;
    const isOver = this.#stopped || entry.token !== token;
    const isLost = env.clock.monotonic() - reading.since >= holderLostMs;
    if (isOver || isLost) {
      if (this.#following.get(entry) === token) this.#following.delete(entry);
      if (!isOver) loop.post({ type: 'lost', token });
      return;
    }
    env.timers.after(backoffMs(RETRY, reading.tries++, env.random.next()), () => this.#read(reading));
  }

  /** Its reader counts as there until the end is durable: nobody is to read it a second time. */
  #ended(token: string, outcome: ExecutionOutcome): void {
    if (this.#stopped) return;
    const good = checked(outcome);
    const stored = this.#storedNow(good);
    if (stored) return this.#parts.loop.post({ type: 'outcome', token, outcome: stored });
    this.#stored(good).then(
      (late) => this.#stopped || this.#parts.loop.post({ type: 'outcome', token, outcome: late }),
      (error: Error) => this.#stopped || this.#parts.loop.fail(error),
    );
  }

  /** The outcome at once where it needs no blob. */
  #storedNow(outcome: ExecutionOutcome): Outcome | undefined {
    if (outcome.ok !== true) return outcome;
    const result = this.#parts.bodies.inline(outcome.resultText);
    return result === undefined ? undefined : succeeded(result, outcome.usage);
  }

  /** Puts a large result behind the store; while the disk is full the outcome waits here, and nothing is lost. */
  async #stored(outcome: ExecutionOutcome): Promise<Outcome> {
    if (outcome.ok !== true) return outcome;
    for (;;) {
      try {
        const result: Body = await this.#parts.bodies.store(outcome.resultText);
        return succeeded(result, outcome.usage);
      } catch (error) {
        if (!(error instanceof OrchdError) || !error.retriable || this.#stopped) throw error;
        await this.#pause(RETRY.maxDelayMs);
      }
    }
  }

  /** It answers; and where its memory is another one by now, later attempts must be judged by that one. */
  #heard(backend: Backend, registry: string): void {
    const known = this.#parts.engine.queue.fleet.backends.get(backend.info.name);
    // A worker that has gone since it was asked must not come back by what it said before.
    if (!known) return;
    if (known.info.registry !== registry) {
      this.#parts.loop.post({ type: 'backend', info: { ...backend.info, registry } });
    } else if (!known.up) this.#parts.loop.post({ type: 'reachable', name: backend.info.name, up: true });
  }

  /** No answer for too long: the attempt is unknown, and the backend gets nothing new until it answers. */
  #unanswered(token: string, heardAt: number): void {
    if (this.#parts.env.clock.monotonic() - heardAt < this.#parts.holderLostMs) return;
    const attempt = this.#parts.engine.state.open.get(token)?.open;
    if (!attempt) return;
    this.#parts.loop.post({ type: 'reachable', name: attempt.backend, up: false });
    if (attempt.state !== 'unknown') this.#parts.loop.post({ type: 'lost', token });
  }

  #who(): Commander {
    return commanderOf(this.#parts.engine.state);
  }

  #pause(ms: number): Promise<void> {
    return pause(this.#parts.env.timers, ms);
  }
}

const succeeded = (result: Body, usage: UsedTokens | undefined): Outcome =>
  usage ? { ok: true, result, usage } : { ok: true, result };

/** A result is JSON; what else an executor calls so would break whoever reads it. */
function checked(outcome: ExecutionOutcome): ExecutionOutcome {
  if (outcome.ok !== true) return outcome;
  try {
    JSON.parse(outcome.resultText);
    return outcome;
  } catch {
    return { ok: false, error: errorInfo('WORKER_PROTOCOL', 'the result is not JSON') };
  }
}

/** Whether an executor's silence about a token means that it never had it. */
function remembers(memory: { registry: string; rememberedSince: number }, attempt: AttemptRecord): boolean {
  return memory.registry === attempt.registry && memory.rememberedSince <= attempt.at;
}

const isFenced = (error: unknown): boolean => error instanceof OrchdError && error.code === 'FENCED';

/** What a store that failed means to everybody else: where another one leads, nothing is wrong with it. */
export const storeFailure = (error: Error): Error =>
  isFenced(error) ? error : new OrchdError('STORE_FAILED', undefined, {}, { cause: error });

const actionOf = (effect: Effect): string => `${effect.kind} ${effect.token}`;

function ignore(): void {}
