/**
 * Carries out what is due for attempts. For every open attempt there is at most one offer, one inspection and one
 * kill under way, and at most one reader of its events; each ends by posting its result to the loop.
 */

import { mayBeSpared } from '../core/attempts/progress.ts';
import type { KillAnswer } from '../core/attempts/reports.ts';
import { waitStateOf } from '../core/attempts/waiting.ts';
import { due, dueFor, type Effect, type EffectKind } from '../core/engine/due.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Backend, ExecutionEvent, KillHow, KillReply, OfferReply } from '../core/ports/backend.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { commanderOf } from '../core/state/state.ts';
import { crashpoint } from '../kit/crashpoint.ts';
import type { Env } from '../kit/env/env.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../model/errors.ts';
import type { AttemptRecord, Change } from '../model/records.ts';
import type { SessionThread } from '../model/session-record.ts';
import type { Commander } from '../model/worker-wire.ts';
import { Acknowledgements } from './acknowledgements.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Bodies } from './bodies.ts';
import type { BrainClock } from './brain-clock.ts';
import { cappedPayload } from './capped-payload.ts';
import type { Divergence } from './divergence.ts';
import type { EffectRunner, RepeatedEffect } from './effect-runner.ts';
import { EventReaders } from './event-readers.ts';
import { Inspector, remembers } from './inspector.ts';
import type { Loop } from './loop.ts';
import { type OfferedTexts, offeredAsk, readWait } from './offered.ts';
import type { Outcomes } from './outcomes.ts';
import { Reconciliation } from './reconciliation.ts';

/** The part of the loop that effects use. */
export type EffectLoop = Pick<Loop, 'post' | 'ask' | 'durable' | 'fail'>;

export interface EffectsParts {
  readonly env: Env;
  readonly runner: EffectRunner;
  readonly engine: Engine;
  readonly loop: EffectLoop;
  readonly bodies: Bodies;
  readonly backends: BackendDirectory;
  readonly divergence: Divergence;
  readonly clock: Pick<BrainClock, 'now'>;
  readonly holderLostMs: number;
  readonly onEvent: (entry: JobEntry, event: ExecutionEvent) => void;
  readonly outcomes: Outcomes;
  /** Nobody has claimed this attempt of a pool of consumers; its intent is durable. */
  readonly publish: (token: string) => void;
}

/**
 * The acceptance of an attempt that only decides is recorded after this time. Mostly the attempt has ended by then, also
 * where it reads and stores bodies, and saves a commit: when it is lost it is begun again, accepted or not. Whatever is
 * recorded first says when it was accepted.
 */
export const DECISION_MS = 100;

type Fenced = { readonly is: 'fenced' };

export class Effects {
  readonly #parts: EffectsParts;
  readonly #runner: EffectRunner;
  readonly #outcomes: Outcomes;
  readonly #inspector: Inspector;
  /** The attempts whose offer was sent, until the answer to it is durable. */
  readonly #offering = new Map<JobEntry, string>();
  readonly #readers: EventReaders;
  readonly acknowledgements: Acknowledgements;

  /** The backends that have answered once. */
  readonly #known = new WeakSet<Backend>();

  constructor(parts: EffectsParts) {
    this.#parts = parts;
    this.#runner = parts.runner;
    this.#outcomes = parts.outcomes;
    this.acknowledgements = new Acknowledgements(parts);
    this.#inspector = new Inspector(parts);
    this.#readers = new EventReaders({ ...parts, who: () => this.#who() });
  }

  get forReconciliation(): { readonly inspector: Inspector; readonly acks: Acknowledgements } {
    return { inspector: this.#inspector, acks: this.acknowledgements };
  }

  /** Starts what is due for one job; its records are durable. */
  update(entry: JobEntry): void {
    const effect = dueFor(this.#parts.engine, entry);
    if (effect?.kind !== 'offer') this.#offering.delete(entry);
    if (!entry.open) this.#readers.forget(entry);
    if (effect) this.#begin(effect);
  }

  /** Starts every effect that is due and not under way. */
  sweep(durableSeq: number): void {
    for (const effect of due(this.#parts.engine)) {
      if (effect.after <= durableSeq) this.#begin(effect);
    }
    for (const { up, info } of this.#parts.engine.queue.fleet.backends.values()) {
      const backend = this.#parts.backends.get(info.name);
      if (backend && (!up || !this.#known.has(backend))) this.#probe(backend);
    }
    this.acknowledgements.sweep();
  }

  /**
   * A backend that does not answer may hold no attempt that would be inspected: it is asked for its own sake. So is one
   * that is new to this brain: it may know another copy of the store.
   */
  #probe(backend: Backend): void {
    const { name } = backend.info;
    let isAsked = false;
    const effect: RepeatedEffect<true> = {
      // A probe is tried once: the next sweep repeats it. A backend that does not answer gets its offers, as before: they
      // become unknown, and it is inspected.
      isDue: () => !isAsked,
      attempt: async () => {
        isAsked = true;
        const isOwn = await this.#inspector.inspect([], backend).then(
          (inspection) => this.#inspector.isOwn(backend, inspection),
          () => !this.#parts.divergence.isRefusedBy(name),
        );
        if (isOwn) this.#known.add(backend);
        else this.#takeBack(backend);
        return true;
      },
    };
    this.#runner.run(`probe ${name}`, effect, () => this.#offerAll(backend));
  }

  /** Withdraws the offers that have waited for the first answer of a backend, which knows another copy of the store. */
  #takeBack({ info }: Backend): void {
    for (const entry of this.#parts.engine.state.open.values()) {
      const { open, token } = entry;
      const isUnsent = open?.state === 'intended' && !open.kill && this.#offering.get(entry) !== token;
      if (isUnsent && open.backend === info.name && open.epoch === this.#who().epoch)
        this.#parts.loop.post({ type: 'offered', token, answer: { is: 'unsent' } });
    }
  }

  /** Sends the offers that waited for the first answer of a backend. */
  #offerAll(backend: Backend): void {
    if (!this.#known.has(backend)) return;
    for (const entry of this.#parts.engine.state.open.values()) {
      const isWaiting = entry.open?.state === 'intended' && entry.open.backend === backend.info.name;
      if (isWaiting) this.#parts.loop.durable(entry.seq).then(() => this.update(entry), ignore);
    }
  }

  /** Acknowledges the attempts that these durable changes have closed: their executors may drop them. */
  acknowledge(changes: readonly Change[]): void {
    this.acknowledgements.closed(changes);
  }

  #begin(effect: Effect): void {
    if (this.#runner.stopped) return;
    const { token, kind } = effect;
    if (kind === 'publish') return this.#parts.publish(token);
    const backend = this.#parts.backends.get(effect.backend);
    if (!backend) {
      this.#parts.loop.post({ type: 'lost', token });
      return;
    }
    // A backend that is new to this brain may know another copy of the store: it is asked before it gets work.
    if (kind === 'offer' && !this.#known.has(backend)) return this.#probe(backend);
    if (kind === 'inspect' && Reconciliation.isFirstUnderWay(this.#runner, effect.backend)) return;
    if (kind === 'follow') this.#readers.follow(token, backend);
    else if (kind === 'offer') this.#offer(token, backend);
    else this.#repeat(token, kind, backend);
  }

  #repeat(token: string, kind: 'inspect' | 'kill', first: Backend): void {
    const { name } = first.info;
    const effect: RepeatedEffect<true> = {
      isDue: () => this.#isDue(token, kind),
      attempt: async () => {
        // Looked up for every try: a source may have replaced the backend, whose executor is at another address then.
        const backend = this.#parts.backends.get(name) ?? first;
        const settled = await (kind === 'inspect'
          ? this.#inspect(token, backend)
          : this.#kill(token, backend));
        return settled || undefined;
      },
      onFailure: (_, silentMs) => {
        if (kind === 'inspect' && silentMs >= this.#parts.holderLostMs) this.#unanswered(token);
      },
    };
    // The name contains the kind, so that a kill does not wait for an inspection.
    this.#runner.run(`${kind} ${token}`, effect, () => this.#again(token, kind));
  }

  /** Starts an effect of the same kind if one is due again; one of another kind was started by `update`. */
  #again(token: string, kind: EffectKind): void {
    const entry = this.#parts.engine.state.open.get(token);
    if (entry && this.#isDue(token, kind))
      this.#parts.loop.durable(entry.seq).then(() => this.update(entry), ignore);
  }

  #isDue(token: string, kind: EffectKind): boolean {
    const entry = this.#parts.engine.state.open.get(token);
    return !this.#runner.stopped && entry !== undefined && dueFor(this.#parts.engine, entry)?.kind === kind;
  }

  /** Sent once: an offer without an answer makes the attempt unknown, and the attempt is then inspected. */
  #offer(token: string, backend: Backend): void {
    const entry = this.#parts.engine.state.open.get(token);
    if (!entry || this.#offering.get(entry) === token) return;
    this.#offering.set(entry, token);
    const { ask, job } = entry;
    // The texts of a session are sealed.
    const isReadable =
      typeof ask.payload === 'string' && !job.wait && ask.spec.session_id === undefined && !isCapped(entry);
    if (isReadable) this.#send(token, entry, { payloadText: ask.payload as string }, backend);
    else void this.#readThenSend(token, entry, backend);
  }

  /** A body that cannot be read now is tried again; a damaged one refuses the attempt. */
  async #readThenSend(token: string, entry: JobEntry, backend: Backend): Promise<void> {
    const { bodies } = this.#parts;
    const isSent = await this.#runner.repeat({
      isDue: () => this.#isDue(token, 'offer'),
      attempt: async () => {
        try {
          const { wait } = entry.job;
          const state = waitStateOf(this.#parts.engine.state, entry);
          const waited = wait && (await readWait(wait, state, bodies));
          const read = await bodies.read(entry.ask.payload);
          const payloadText = await cappedPayload(read, entry.open?.maxTokens, this.#parts.env.timers);
          const seed = await this.#seedOf(entry);
          const conversation =
            seed === undefined ? undefined : { seed, thread: this.#threadOf(entry, backend) };
          this.#send(token, entry, { payloadText, waited, conversation }, backend);
        } catch (error) {
          const info = error instanceof OrchdError ? error.info() : errorInfo('STORE_FAILED');
          if (info.retriable) throw error;
          this.#answered(token, backend, { is: 'refused', error: info });
        }
        return true;
      },
    });
    if (!isSent && this.#offering.get(entry) === token) this.#offering.delete(entry);
  }

  #send(token: string, entry: JobEntry, texts: OfferedTexts, backend: Backend): void {
    // Reading the body took a while: this attempt may have ended since, and another one be open.
    if (this.#runner.stopped || !entry.open || entry.token !== token) return;
    const { n: attempt, registry } = entry.open;
    crashpoint('effect:before-offer');
    const offer = { ...this.#who(), token, ask: offeredAsk(entry), ...texts, attempt, registry };
    backend.offer(offer).then(
      (answer) => this.#answered(token, backend, answer),
      () => this.#answered(token, backend, { is: 'unknown' }),
    );
  }

  /** Undefined without a session, and for jobs that run beside others of theirs: these have no thread in common. */
  async #seedOf({ ask: { tenant, spec } }: JobEntry): Promise<string | undefined> {
    const { session_id: session, parallel } = spec;
    if (session === undefined || parallel) return undefined;
    return this.#parts.bodies.seals.secretFor('heard', { tenant, session });
  }

  /** What the backend has of the job's session. */
  #threadOf({ ask }: JobEntry, { info }: Backend): SessionThread | undefined {
    const session = this.#parts.engine.state.sessionOf(ask.tenant, ask.spec.session_id ?? '');
    return session?.threads?.find(({ backend }) => backend === info.name);
  }

  #answered(token: string, backend: Backend, answer: OfferReply | { readonly is: 'unknown' }): void {
    crashpoint('effect:after-offer');
    if (this.#runner.stopped) return;
    if (answer.is === 'fenced') {
      this.#parts.divergence.fenced(backend.info.name);
      this.#parts.loop.post({ type: 'offered', token, answer: { is: 'unknown' } });
      return;
    }
    if (answer.is === 'conflict') this.#parts.divergence.conflict(backend.info.name, token);
    if (answer.is === 'refused') return this.#refused(token, answer);
    const acceptedAt = answer.is === 'accepted' ? this.#parts.clock.now() : undefined;
    const report = (): void => {
      if (!this.#runner.stopped && this.#parts.engine.state.open.has(token))
        this.#parts.loop.post({ type: 'offered', token, answer, acceptedAt });
    };
    if (acceptedAt !== undefined && backend.info.isRepeatable)
      this.#parts.env.timers.after(DECISION_MS, report);
    else report();
    // Followed before the acceptance is durable: a quick outcome is then written in the same flush.
    if (acceptedAt !== undefined) this.#readers.follow(token, backend, acceptedAt);
  }

  #refused(token: string, answer: Extract<OfferReply, { is: 'refused' }>): void {
    const ask = this.#parts.engine.state.open.get(token)?.ask;
    const post = (error: ErrorInfo): void =>
      this.#parts.loop.post({ type: 'offered', token, answer: { ...answer, error } });
    if (ask?.spec.session_id === undefined) post(answer.error);
    else this.#outcomes.sealed(answer.error, ask).then(post, ignore);
  }

  async #inspect(token: string, backend: Backend): Promise<boolean> {
    const inspection = await this.#inspector.inspect([token], backend);
    if (!this.#inspector.isOwn(backend, inspection)) return false;
    const entry = this.#parts.engine.state.open.get(token);
    const attempt = entry?.open;
    if (!attempt) return true;
    const finding = await this.#inspector.finding(entry, attempt, inspection);
    const held =
      finding.is === 'forgotten' && attempt.state === 'unknown' && attempt.epoch === this.#who().epoch;
    await this.#parts.loop.ask({ type: 'found', token, finding });
    // An unknown attempt that is held stays due: the executor may still find it, and asking costs little.
    return !held;
  }

  async #kill(token: string, backend: Backend): Promise<boolean> {
    crashpoint('effect:before-kill');
    const ordered = this.#parts.engine.state.open.get(token);
    if (!ordered) return true;
    const how = mayBeSpared(ordered) ? 'bury' : 'end';
    const reply = await this.#parts.divergence.answerOf(backend.info.name, this.#killed(token, backend, how));
    const attempt = this.#parts.engine.state.open.get(token)?.open;
    if (!attempt) return true;
    // That an executor of another copy does not know the token proves nothing.
    if (reply.is === 'tombstoned' && !this.#inspector.isOwn(backend, reply)) return false;
    if (reply.is === 'stopping' || (reply.is === 'running' && how === 'end')) {
      // The reader receives the end, or the next try does.
      this.#readers.follow(token, backend);
      return false;
    }
    const isOther = 'hash' in reply && this.#inspector.isOtherBody(ordered, attempt, reply.hash);
    const answer: KillAnswer = isOther ? { is: 'conflict' } : await this.#killAnswer(reply, ordered, attempt);
    await this.#parts.loop.ask({ type: 'killed', token, answer });
    return true;
  }

  async #killed(token: string, backend: Backend, how: KillHow): Promise<Exclude<KillReply, Fenced>> {
    const reply = await backend.kill(token, this.#who(), how);
    if (reply.is === 'fenced') throw new OrchdError('FENCED');
    return reply.is === 'tombstoned' ? this.#inspector.inBrainTime(reply) : reply;
  }

  async #killAnswer(
    reply: Exclude<KillReply, Fenced | { is: 'stopping' }>,
    { ask }: JobEntry,
    attempt: AttemptRecord,
  ): Promise<KillAnswer> {
    if (reply.is === 'running') return { is: 'running' };
    if (reply.is === 'forgotten') return this.#outcomes.forgotten(reply.why, ask);
    if (reply.is === 'ended')
      return { is: 'ended', outcome: await this.#outcomes.recorded(reply.outcome, ask) };
    return { is: remembers(reply, attempt) ? 'tombstoned' : 'forgotten' };
  }

  /** After too long without an answer the attempt is unknown, and the backend gets no new work until it answers. */
  #unanswered(token: string): void {
    const attempt = this.#parts.engine.state.open.get(token)?.open;
    if (!attempt) return;
    this.#parts.loop.post({ type: 'reachable', name: attempt.backend, up: false });
    if (attempt.state !== 'unknown') this.#parts.loop.post({ type: 'lost', token });
  }

  #who(): Commander {
    return commanderOf(this.#parts.engine.state);
  }
}

const isCapped = ({ open }: JobEntry): boolean => open?.maxTokens !== undefined;

function ignore(): void {}
