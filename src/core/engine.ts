/**
 * The engine: step(event, now) decides, applies its changes at once and returns them.
 *
 * E1  No I/O and no waiting: a step is a synchronous function of state, event and instant.
 * E2  Nothing of a step may be seen or done outside before its changes are durable; the shell sees to that.
 * E3  An engine whose changes could not be made durable is discarded, never rolled back.
 * E4  A step that refuses leaves no change behind.
 */
import { OrchdError } from '../model/errors.ts';
import {
  BRAIN_ID,
  type Change,
  type LimitsRecord,
  type ModelRecord,
  type PoolRecord,
  type SessionRecord,
  type WorkerRecord,
} from '../model/records.ts';
import { claimBackend, expireLeases, grant, heartbeat, release } from './admission/lease.ts';
import { openLimits, setLimits } from './admission/quota.ts';
import { expireSessions, openSessions, setBudget } from './admission/session.ts';
import { answer, type SubmitAnswer, submit } from './admission/submit.ts';
import { endAttempt } from './attempts/ending.ts';
import { tick } from './attempts/expiry.ts';
import { cancel, endSession, redriveJob, resolve } from './attempts/operator-commands.ts';
import { found, killed, lost, offered } from './attempts/progress.ts';
import type { EngineEvent } from './events.ts';
import type { BackendInfo } from './queue/fleet.ts';
import { schedule } from './scheduling/schedule.ts';
import type { EngineSettings } from './settings.ts';
import type { JobEntry } from './state/job-entry.ts';
import type { HeldLease } from './state/leases.ts';
import { State } from './state/state.ts';
import { Turn, type TurnContext } from './turn.ts';
import { noteVerified, register, setModelState } from './workers/catalog.ts';
import { openDemand } from './workers/forecast.ts';
import { evictWorker, orderPool } from './workers/operator-commands.ts';
import { plan } from './workers/plan.ts';
import { poolLost, poolReported, startFailed } from './workers/reconcile.ts';
import { upkeep } from './workers/upkeep.ts';

export type Reply =
  | readonly (SubmitAnswer | OrchdError)[]
  | SubmitAnswer
  | HeldLease
  | ModelRecord
  | SessionRecord
  | PoolRecord
  | WorkerRecord
  | LimitsRecord
  | OrchdError
  | undefined;

/** Those that the rest of the engine does not handle. */
type ProvisionEvent = Extract<
  EngineEvent,
  {
    type:
      | 'register'
      | 'model-state'
      | 'verified'
      | 'budget'
      | 'forget-session'
      | 'pool-awaited'
      | 'pool'
      | 'pool-lost'
      | 'start-failed'
      | 'pool-order'
      | 'evict'
      | 'limits';
  }
>;

export interface Steps {
  readonly changes: readonly Change[];
  /** Jobs whose due effect may have changed. */
  readonly touched: Iterable<JobEntry>;
  /** One for each event. */
  readonly replies: readonly Reply[];
}

export interface Step extends Omit<Steps, 'replies'> {
  readonly reply: Reply;
}

export interface EngineParts {
  readonly settings: EngineSettings;
  readonly random: () => number;
}

/** What is left of a full disk is for cancels and outcomes; jobs are refused one by one, since some are there already. */
const NEEDS_ROOM: ReadonlySet<EngineEvent['type']> = new Set([
  'redrive',
  'lease',
  'register',
  'model-state',
  'budget',
  'limits',
]);

export class Engine {
  readonly state: State;
  readonly settings: EngineSettings;
  readonly #context: TurnContext;

  constructor(parts: EngineParts) {
    this.settings = parts.settings;
    this.state = new State(parts.settings);
    this.#context = { ...parts, state: this.state };
  }

  /** One event. */
  step(event: EngineEvent, now: number): Step {
    const { changes, touched, replies } = this.steps([event], now);
    return { changes, touched, reply: replies[0] };
  }

  /** Events of one instant, one after the other; what they change is collected. */
  steps(events: readonly EngineEvent[], now: number): Steps {
    const turn = new Turn(this.#context, now);
    const replies: Reply[] = [];
    for (const event of events) {
      replies.push(this.#handle(turn, event));
      schedule(turn);
    }
    plan(turn);
    return { changes: turn.changes, touched: turn.touched, replies };
  }

  /** The next instant at which a tick would change something. */
  nextWake(): number {
    const timer = this.state.timers.peek()?.wakeAt ?? Number.POSITIVE_INFINITY;
    return Math.min(timer, this.state.fleet.nextUnblock(), this.state.leases.nextExpiry());
  }

  #handle(turn: Turn, event: EngineEvent): Reply {
    if (this.state.full && NEEDS_ROOM.has(event.type)) return new OrchdError('STORE_FULL');
    switch (event.type) {
      case 'submit':
        return event.submissions.map((submission) => attempt(() => submit(turn, submission)));
      case 'cancel':
        return attempt(() => cancel(turn, event.uid, event.by));
      case 'redrive':
        return attempt(() => answer(turn, redriveJob(turn, event.uid, event.by, event.known), undefined));
      case 'resolve':
        return this.#order(turn, event.uid, (entry) => resolve(turn, entry, event.by, event.how));
      case 'open':
      case 'purge':
        return this.#keepBrain(turn, event);
      case 'lease':
        return attempt(() => grant(turn, event.request));
      case 'heartbeat':
        return attempt(() => heartbeat(turn, event));
      case 'release':
        return attempt(() => release(turn, event));
      case 'tick':
        tick(turn);
        expireLeases(turn);
        expireSessions(turn);
        upkeep(turn);
        for (const { away, info } of this.state.fleet.backends.values()) if (away) this.#place(turn, info);
        return undefined;
      case 'backend':
        this.state.fleet.put(event.info);
        this.#place(turn, event.info);
        return undefined;
      case 'reachable':
        this.state.fleet.setUp(event.name, event.up);
        return undefined;
      case 'space':
        this.state.full = event.full;
        return undefined;
      case 'pause':
        this.state.paused = true;
        return undefined;
      case 'indexed':
        this.#forget(event.uids);
        return undefined;
      case 'offered':
      case 'found':
      case 'killed':
      case 'outcome':
      case 'lost':
      case 'spoke':
        this.#report(turn, event);
        return undefined;
      default:
        return this.#provide(turn, event);
    }
  }

  /** What concerns models, sessions, pools and workers. */
  #provide(turn: Turn, event: ProvisionEvent): Reply {
    switch (event.type) {
      case 'register':
        return attempt(() => register(turn, event.model));
      case 'model-state':
        return attempt(() => setModelState(turn, event.id, event.state));
      case 'verified':
        return attempt(() => noteVerified(turn, event.id, event.verified));
      case 'budget':
        return attempt(() => setBudget(turn, event.tenant, event.id, event.tokenBudget));
      case 'forget-session':
        return attempt(() => endSession(turn, event.tenant, event.id, event.by));
      case 'pool-awaited':
        if (event.awaited) this.state.pools.awaited.add(event.name);
        else this.state.pools.awaited.delete(event.name);
        return undefined;
      case 'pool':
        poolReported(turn, event.report);
        return undefined;
      case 'pool-lost':
        poolLost(turn, event.id);
        return undefined;
      case 'start-failed':
        startFailed(turn, event.worker, event.error);
        return undefined;
      case 'pool-order':
        return attempt(() => orderPool(turn, event.id, event.order, event.by));
      case 'evict':
        return attempt(() => evictWorker(turn, event.worker, event.by, event.isDead ?? false));
      case 'limits':
        return attempt(() => setLimits(turn, event.limits, event.by));
    }
  }

  /** Attempts at a backend that is at another node are as good as lost, until that node leads or somebody settles them. */
  #place(turn: Turn, info: BackendInfo): void {
    const away = !claimBackend(turn, info);
    this.state.fleet.setAway(info.name, away);
    if (!away) return;
    for (const entry of [...this.state.open.values()]) {
      if (entry.open?.backend === info.name) lost(turn, entry);
    }
  }

  #report(turn: Turn, event: Extract<EngineEvent, { token: string }>): void {
    const entry = this.state.open.get(event.token);
    // What an executor says that is at another node than the attempt is means nothing.
    if (!entry?.open || this.state.fleet.isAway(entry.open.backend)) return;
    switch (event.type) {
      case 'offered':
        return offered(turn, entry, event.answer);
      case 'found':
        return found(turn, entry, event.finding);
      case 'killed':
        return killed(turn, entry, event.answer);
      case 'outcome':
        return endAttempt(turn, entry, event.outcome);
      case 'lost':
        return lost(turn, entry);
      case 'spoke':
        entry.spoke = entry.open.n;
    }
  }

  #order(turn: Turn, uid: string, run: (entry: JobEntry) => void): Reply {
    return attempt(() => {
      const entry = this.state.jobs.get(uid);
      if (!entry) throw new OrchdError('NOT_FOUND', `there is no job "${uid}"`);
      run(entry);
      return answer(turn, entry, undefined);
    });
  }

  #keepBrain(turn: Turn, event: Extract<EngineEvent, { type: 'open' | 'purge' }>): Reply {
    const { brain } = this.state;
    if (event.type === 'open') {
      const after = brain
        ? { ...brain, epoch: brain.epoch + 1 }
        : { v: 1 as const, owner: event.owner, epoch: 1, attemptFloor: 0 };
      turn.put('brain', BRAIN_ID, after, 'open');
      this.state.leases.renewAll(turn.now);
      openSessions(turn);
      openLimits(turn);
      openDemand(turn);
    } else if (brain && event.attemptFloor > brain.attemptFloor) {
      turn.put('brain', BRAIN_ID, { ...brain, attemptFloor: event.attemptFloor }, 'purge');
    }
    return undefined;
  }

  /** Ended jobs leave memory once the history has them as they are now. */
  #forget(uids: readonly { readonly uid: string; readonly seq: number }[]): void {
    for (const { uid, seq } of uids) {
      const entry = this.state.jobs.get(uid);
      if (entry && entry.seq === seq && this.state.ended.has(entry)) this.state.forget(entry);
    }
  }
}

/** Refusals are answers; anything else that is thrown is a defect and discards the engine. */
function attempt<T>(run: () => T): T | OrchdError {
  try {
    return run();
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}
