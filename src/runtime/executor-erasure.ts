/**
 * Erases what the executors keep of the jobs of a deleted session for readers who come late, and ends the streams of
 * these jobs; that of a job which is being cancelled ends with its end. Attempts that have not ended are cancelled with the session, and erased when they have (acknowledgements.ts).
 */
import type { Engine } from '../core/engine/engine.ts';
import type { KeyOwner } from '../core/ports/keys.ts';
import type { Store } from '../core/ports/store.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import type { Env } from '../kit/env/env.ts';
import { pause } from '../kit/pause.ts';
import { nextTurn } from '../kit/slices.ts';
import { type AttemptRecord, tokenOf } from '../model/records.ts';
import { type Acknowledgements, type ClosedAttempt, isClosed } from './acknowledgements.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Following } from './following.ts';

export interface ExecutorErasureParts {
  readonly engine: Engine;
  readonly store: Pick<Store, 'history'>;
  readonly env: Pick<Env, 'timers'>;
  readonly clock: Pick<BrainClock, 'now'>;
  readonly effects: { readonly acknowledgements: Pick<Acknowledgements, 'erase'> };
  readonly following: Pick<Following, 'erased'>;
}

/** Executors drop what was acknowledged by themselves, in minutes of their own time; one that was off needs longer. */
const KEPT_AT_MOST_MS = 24 * 3_600_000;
/** The most attempts that are erased, the newest first. */
const MAX_ATTEMPTS = 2000;
/** Pages are read one after the other, whatever number of sessions is deleted at once: each takes the loop some time. */
const PAGE = 100;
/** The deletion waits this long for executors that do not answer; they are told again later. */
const WAIT_MS = 2000;

interface JobOfSession {
  readonly uid: string;
  readonly attempts: readonly AttemptRecord[];
}

export class ExecutorErasure {
  readonly #parts: ExecutorErasureParts;
  /** The search for the attempts of one session at a time. */
  #searching: Promise<unknown> = Promise.resolve();

  constructor(parts: ExecutorErasureParts) {
    this.#parts = parts;
  }

  async erase(owner: KeyOwner): Promise<void> {
    const { env } = this.#parts;
    const searching = this.#searching.then(() => this.#closedOf(owner));
    this.#searching = searching.catch(() => undefined);
    const closed = await searching;
    if (closed.length === 0) return;
    const answered = new AbortController();
    const erasing = this.#tell(closed).finally(() => answered.abort());
    await Promise.race([erasing, pause(env.timers, WAIT_MS, answered.signal)]);
  }

  /** Some in each turn of the event loop: executors of this process answer at once. */
  async #tell(closed: readonly ClosedAttempt[]): Promise<void> {
    const { effects, env } = this.#parts;
    for (let from = 0; from < closed.length; from += PAGE) {
      await effects.acknowledgements.erase(closed.slice(from, from + PAGE));
      await nextTurn(env.timers);
    }
  }

  async #closedOf(owner: KeyOwner): Promise<readonly ClosedAttempt[]> {
    const closed: ClosedAttempt[] = [];
    await nextTurn(this.#parts.env.timers);
    for await (const { uid, attempts } of this.#jobsOf(owner)) {
      this.#parts.following.erased(uid);
      for (const { n, state, backend } of attempts)
        if (isClosed(state)) closed.push({ token: tokenOf(uid, n), backend });
      if (closed.length >= MAX_ATTEMPTS) break;
    }
    return closed;
  }

  /** The jobs of the session that have ended in the last time, and those that are being cancelled. */
  async *#jobsOf({ tenant, session }: KeyOwner): AsyncGenerator<JobOfSession> {
    const { store, clock } = this.#parts;
    const { state } = this.#parts.engine;
    const isOf = ({ ask }: JobEntry): boolean => ask.tenant === tenant && ask.spec.session_id === session;
    const inMemory: JobEntry[] = [];
    for (const entry of state.ended) if (isOf(entry)) inMemory.push(entry);
    for (const entry of state.open.values()) if (isOf(entry)) inMemory.push(entry);
    for (const [at, { uid, past = [] }] of inMemory.entries()) {
      if (at % PAGE === PAGE - 1) await nextTurn(this.#parts.env.timers);
      yield { uid, attempts: past };
    }
    const since = clock.now() - KEPT_AT_MOST_MS;
    for (let before: number | undefined; ; ) {
      const page = await store.history.list({
        tenant,
        session,
        limit: PAGE,
        ...(before !== undefined && { before }),
      });
      const recent = page.filter(({ job }) => (job.endedAt ?? 0) >= since);
      yield* recent;
      await nextTurn(this.#parts.env.timers);
      before = page.at(-1)?.ask.n;
      if (page.length < PAGE || recent.length === 0) return;
    }
  }
}
