/**
 * Counts what has happened, in plain numbers; an observer of durable changes. Labels are added per scrape, because they
 * cost more than a submit.
 */

import { LoopDelayMeter } from '../kit/process/loop-delay.ts';
import type { Cause } from '../model/causes.ts';
import { type Charge, chargeOf } from '../model/charge.ts';
import type { OrchdError } from '../model/errors.ts';
import type { AskRecord, AttemptRecord, Change, DeadReason, JobRecord } from '../model/records.ts';
import { isOpen, isTerminal } from '../model/states.ts';
import { completionTokens, promptTokens, type TokenCounts } from '../model/usage.ts';
import type { JobEnd } from '../runtime/job-ends.ts';
import type { ObservedJob, ObservedState, ObservedSubmit, Observer } from '../runtime/observer.ts';
import { Buckets } from './buckets.ts';
import { ConversationTally } from './conversation-metrics.ts';
import { HttpTally } from './http-metrics.ts';
import { schedulingMs } from './latency.ts';
import { ModuleTally } from './module-metrics.ts';
import { PredictionError } from './prediction-error.ts';
import { RunTally } from './run-tally.ts';
import { LatencyTally } from './scaling-metrics.ts';
import { StorageTally } from './storage-metrics.ts';
import { leaveReason, startReason, WorkerBook, type WorkerMove } from './worker-book.ts';

/** The most predictions kept for jobs that still wait; further ones are not compared. */
const MAX_PREDICTED = 1024;
/** The most models counted separately; further ones share one count. */
const MAX_MODELS = 1000;
const OTHER_MODELS = 'other';

/** How the attempts on one backend ended. */
export class Dispatched {
  succeeded = 0;
  failed = 0;
  cancelled = 0;
  turned_away = 0;
  /** Its job waits now, and goes on with another attempt. */
  waits = 0;
  /** The attempt did not run: the backend was busy, or lost it. */
  abandoned = 0;
}

type Counts = Map<string, number>;

/** Counts of what happened to the workers of one model, by reason. */
export class WorkerCounts {
  readonly starts: Counts = new Map();
  readonly evictions: Counts = new Map();
  readonly failures: Counts = new Map();
  /** Times from the start order to readiness, of workers that jobs waited for. */
  readonly coldStartMs = new Buckets();
}

/** Tokens of one model, as its backends report them. */
export interface TokenTotals {
  prompt: number;
  completion: number;
}

/** What the attempts of one model have cost, by how that is known. */
export interface CostTotals {
  told: number;
  assumed: number;
}

export interface TallyOptions {
  /** The placement algorithm, the label of scheduling latencies. */
  readonly algorithm: string;
}

export class Tally implements Observer {
  readonly algorithm: string;
  accepted = 0;
  duplicate = 0;
  /** Refused submits by error code. */
  readonly rejected: Counts = new Map();
  /** Attempts by backend; entries of removed backends are dropped. */
  readonly dispatched = new Map<string, Dispatched>();
  readonly scheduling = new Buckets();
  readonly predictionError = new PredictionError();
  /** Worker events by model. */
  readonly workers = new Map<string, WorkerCounts>();
  /** Ends of jobs by state: all states from the start, so that the first end is an increase. */
  readonly ended: Record<JobEnd['state'], number> = { succeeded: 0, cancelled: 0, dead: 0 };
  /** Dead jobs by reason. */
  readonly dead: Record<DeadReason, number> = {
    failed: 0,
    dropped: 0,
    expired: 0,
    killed: 0,
    dependency: 0,
  };
  tokenEvents = 0;
  /** Reported tokens by model. */
  readonly tokens = new Map<string, TokenTotals>();
  /** Cost of closed attempts in millionths, by model and basis. */
  readonly costs = new Map<string, CostTotals>();
  /** Attempts that were billed more than their bound, and by how much. */
  readonly overruns = { count: 0, excess: 0 };
  readonly conversations = new ConversationTally();
  readonly latency = new LatencyTally();
  readonly runs = new RunTally();
  readonly modules = new ModuleTally();
  readonly http = new HttpTally();
  readonly storage = new StorageTally();
  readonly loopDelay = new LoopDelayMeter();
  readonly #predicted = new Map<string, number>();
  readonly #book = new WorkerBook();

  constructor({ algorithm }: TallyOptions) {
    this.algorithm = algorithm;
  }

  submitted(answer: ObservedSubmit, uid: string, observed: ObservedState): void {
    if (answer.duplicate_of) this.duplicate++;
    else {
      this.accepted++;
      if (answer.predicted_start_ms) this.#predict(uid, answer.predicted_start_ms, observed);
    }
  }

  refused({ code }: OrchdError): void {
    increment(this.rejected, code);
  }

  /** Keeps the predicted start of a job to compare it with the real one. */
  #predict(uid: string, startMs: number, observed: ObservedState): void {
    const entry = observed.job(uid);
    // A job that is not queued may have been claimed before this call; a start set by `not_before` is not predicted.
    if (entry?.job.state !== 'queued' || entry.ask.spec.not_before !== undefined) return;
    if (this.#predicted.size < MAX_PREDICTED) this.#predicted.set(uid, startMs);
  }

  committed(tookMs: number): void {
    this.storage.commitSec.note(tookMs / 1000);
  }

  tokenReceived(): void {
    this.tokenEvents++;
  }

  /** A new brain starts in this process. */
  recovered(): void {
    this.#predicted.clear();
    this.#book.forget();
    this.dispatched.clear();
  }

  changed(changes: readonly Change[], now: number, observed: ObservedState): void {
    this.#book.read(observed);
    for (const { kind, id, after, cause } of changes) {
      if (kind === 'worker') {
        const move = this.#book.moved(id, after, cause);
        if (move) this.#workerMoved(move, now);
        if (!after) this.#dropGone(observed);
      } else if (!after) continue;
      else if (kind === 'job') this.#jobMoved(id, after, cause, now, observed);
      // A redrive writes closed attempts again as they were: they were counted when they were closed.
      else if (kind === 'attempt' && !isOpen(after.state) && cause !== 'redrive')
        this.#ended(after, observed);
    }
  }

  #jobMoved(uid: string, job: JobRecord, cause: Cause, now: number, observed: ObservedState): void {
    // A cancel request for a claimed job is written with the same state.
    if (job.state === 'claimed' && !job.cancel) {
      const entry = observed.job(uid);
      if (!entry) return;
      this.#claimed(entry, job, now);
      const isClaim = typeof cause === 'object' && cause.is === 'claim';
      if (isClaim && entry.ask.spec.session_id !== undefined) this.conversations.claimed(cause);
    } else if (isTerminal(job.state)) {
      this.#jobEnded(job);
      const ask = observed.job(uid)?.ask;
      if (ask) this.latency.ended(ask, job);
      if (this.#predicted.size > 0) this.#predicted.delete(uid);
    }
  }

  /** A job record in a terminal state is written once per end, as JobEnds relies on too. */
  #jobEnded({ state, reason }: JobRecord): void {
    this.ended[state as JobEnd['state']]++;
    if (state === 'dead') this.dead[reason ?? 'failed']++;
  }

  #claimed(entry: ObservedJob, job: JobRecord, now: number): void {
    this.scheduling.note(schedulingMs(entry, job, now));
    if (this.#predicted.size === 0) return;
    const predicted = this.#predicted.get(entry.uid);
    if (predicted === undefined) return;
    this.#predicted.delete(entry.uid);
    this.predictionError.note(predicted, now - entry.ask.createdAt);
  }

  #ended(attempt: AttemptRecord, observed: ObservedState): void {
    const { backend, outcome, usage, bill, job } = attempt;
    const ask = usage || bill ? observed.job(job)?.ask : undefined;
    const model = ask ? modelOf(attempt, ask, observed) : '';
    if (usage) this.#used(usage, model);
    if (bill && ask) this.#billed(chargeOf(job, ask, attempt), model);
    let counts = this.dispatched.get(backend);
    if (!counts) {
      counts = new Dispatched();
      this.dispatched.set(backend, counts);
    }
    counts[outcome ?? 'abandoned']++;
  }

  #used(used: TokenCounts, model: string): void {
    const name = modelLabel(this.tokens, model);
    const counts = this.tokens.get(name) ?? { prompt: 0, completion: 0 };
    counts.prompt += promptTokens(used);
    counts.completion += completionTokens(used);
    this.tokens.set(name, counts);
  }

  #billed(charge: Charge | undefined, model: string): void {
    // Other bases have no cost.
    if (charge?.basis !== 'told' && charge?.basis !== 'assumed') return;
    const name = modelLabel(this.costs, model);
    const costs = this.costs.get(name) ?? { told: 0, assumed: 0 };
    costs[charge.basis] += charge.cost;
    this.costs.set(name, costs);
    if (charge.overrun === 0) return;
    this.overruns.count++;
    this.overruns.excess += charge.overrun;
  }

  /** Bounds the memory: workers come and go for ever. */
  #dropGone(observed: ObservedState): void {
    for (const name of this.dispatched.keys()) if (!observed.hasBackend(name)) this.dispatched.delete(name);
  }

  #workerMoved({ what, record, before }: WorkerMove, now: number): void {
    const counts = this.#countsOf(record.modelRef);
    switch (what) {
      case 'ordered':
        return increment(counts.starts, startReason(record.why));
      case 'ready':
        if (before?.state === 'starting' && startReason(before.why) === 'demand')
          counts.coldStartMs.note(now - before.at);
        return;
      case 'draining':
        return increment(counts.evictions, leaveReason(record.why));
      case 'evicted':
        // A drained worker was counted when its drain began.
        if (before?.state !== 'draining') increment(counts.evictions, leaveReason(record.why));
        return;
      case 'start_failed':
      case 'failed':
      case 'died':
        return increment(counts.failures, what);
      case 'found':
      case 'gone':
        return;
    }
  }

  #countsOf(model: string): WorkerCounts {
    const name = modelLabel(this.workers, model);
    let counts = this.workers.get(name);
    if (!counts) {
      counts = new WorkerCounts();
      this.workers.set(name, counts);
    }
    return counts;
  }
}

/**
 * The model of an attempt: its reference in the catalog, else its name, and '' for a job without a model. A route may have
 * chosen another model for the attempt than the one that the job was admitted with.
 */
function modelOf({ model }: AttemptRecord, { spec, modelRef }: AskRecord, observed: ObservedState): string {
  if (model === undefined || model === spec.model) return modelRef ?? spec.model ?? '';
  return observed.modelRef(model) ?? model;
}

/** The name under which a model is counted. */
const modelLabel = (known: ReadonlyMap<string, unknown>, model: string): string =>
  known.size < MAX_MODELS || known.has(model) ? model : OTHER_MODELS;

function increment(counts: Counts, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}
