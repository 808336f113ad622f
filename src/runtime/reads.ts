/**
 * The only way to read the brain's state; nothing outside of runtime/ sees the engine.
 *
 * R1  A read returns durable state only: it reads at one instant (a list of jobs takes as many turns as it needs), and
 *     resolves once everything it has seen is on stable storage. The synchronous reads say so in their comments; they
 *     return only jobs that are durable already, and state that is not stored in records.
 * R2  Instants and waiting times are in brain time, not wall-clock time.
 */

import { modelOf } from '../core/admission/model.ts';
import { keyLimits, limitsOf } from '../core/admission/quota.ts';
import { mayBeErased } from '../core/attempts/ending.ts';
import { waitStateOf } from '../core/attempts/waiting.ts';
import type { Engine } from '../core/engine/engine.ts';
import { isScopeOf } from '../core/limits/limit.ts';
import { pricesOf } from '../core/money/prices.ts';
import type { HistoryQuery, Store } from '../core/ports/store.ts';
import { jobPosition, predictStartMs } from '../core/scheduling/predict.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { isDeviceLease } from '../core/state/leases.ts';
import { startHints } from '../core/workers/forecast.ts';
import { checker } from '../kit/check.ts';
import type { Env } from '../kit/env/env.ts';
import type { Body } from '../model/body.ts';
import { OrchdError } from '../model/errors.ts';
import type { ModelView } from '../model/http/catalog.ts';
import type { JobPage, JobView } from '../model/http/jobs.ts';
import type { LeaseView } from '../model/http/leases.ts';
import type { BackendView } from '../model/http/meta.ts';
import type { PoolView } from '../model/http/pools.ts';
import type { RouteView } from '../model/http/routes.ts';
import type { ScalingView } from '../model/http/scaling.ts';
import type { JobSpec } from '../model/job-spec.ts';
import type { LimitSpec } from '../model/limit-records.ts';
import type { PriceSpec } from '../model/price.ts';
import { DEFAULT_TENANT, type ModelRecord } from '../model/records.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import { ListRequest } from '../model/submit.ts';
import { backendViews } from './backend-views.ts';
import type { Bodies } from './bodies.ts';
import type { KnownLists } from './body-values.ts';
import type { BrainClock } from './brain-clock.ts';
import type { Divergence } from './divergence.ts';
import { type Figures, figuresOf } from './figures.ts';
import { jobsWithPrefix } from './id-prefix.ts';
import type { BodyText, JobWithBodies, JobWithResult } from './job-text.ts';
import { type LeftWork, leftWork } from './left-work.ts';
import { findJobs, type ListingParts, listJobs, type FoundJob as StoredJob } from './listing.ts';
import type { Loop } from './loop.ts';
import { checkTenant, uidFor } from './prepare.ts';
import { bodiesIn, type FoundBodies, type RecordedJob, recordedJob } from './recorded-job.ts';
import { routeView } from './route-view.ts';
import { scalingView } from './scaling-view.ts';
import { ScheduleReads } from './schedule-reads.ts';
import { withErrors } from './sealed-errors.ts';
import type { SessionArchive } from './session-archive.ts';
import { SessionReads } from './session-reads.ts';
import { type StatusView, statusView } from './status.ts';
import { UsageReads } from './usage.ts';
import { viewOf, viewOfBundle } from './view.ts';
import { leaseView, type ModelName, modelNames, modelView, poolView } from './views.ts';
import { whenDurable } from './when-durable.ts';

const checkList = checker(ListRequest);

export interface ReadsParts {
  readonly divergence: Divergence;
  readonly env: Pick<Env, 'timers'>;
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Store;
  readonly bodies: Bodies;
  readonly sessionArchive: SessionArchive;
  readonly clock: BrainClock;
  /** The address of the manager of a pool, if it is known. */
  readonly poolAddress: (pool: string) => string | undefined;
}

/** The queue position and predicted start of a waiting job. */
export interface QueuePosition {
  readonly position: number | undefined;
  readonly predictedStartMs: number | undefined;
}

export class Reads {
  readonly #parts: ReadsParts;
  /** What was spent. */
  readonly usage: UsageReads;
  readonly sessions: SessionReads;
  readonly schedules: ScheduleReads;

  constructor(parts: ReadsParts) {
    this.#parts = parts;
    this.usage = new UsageReads(parts);
    this.sessions = new SessionReads(parts);
    this.schedules = new ScheduleReads(parts);
  }

  /** A job with its result, and with its payload if that is not a blob, from memory or history. */
  async job(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    const { job, payload, result } = await this.#found(jobId, tenant);
    const text = typeof payload === 'string' ? await this.#parts.bodies.readable(payload) : undefined;
    return this.#withValue(text === undefined ? job : { ...job, payload: JSON.parse(text) }, result);
  }

  /** A job with its result: the payload is not parsed, which may be a long conversation. */
  async jobWithValue(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    const { job, result } = await this.#found(jobId, tenant);
    return this.#withValue(job, result);
  }

  async jobState(jobId: string, tenant = DEFAULT_TENANT): Promise<JobState> {
    return (await this.#found(jobId, tenant)).job.state;
  }

  /** A job with its bodies, for answers that are sent as text; a payload that is a blob only if it is `asked` for. */
  async jobWithBodies(jobId: string, tenant: string, asked: 'payload' | undefined): Promise<JobWithBodies> {
    const { job, payload, result } = await this.#found(jobId, tenant);
    const shown = typeof payload === 'string' || asked ? payload : undefined;
    return { job, payload: await this.#text(shown), result: await this.#text(result) };
  }

  /** A job with all its bodies as values, for replay; `known` is shared by the reads of one run. */
  async recordedJob(jobId: string, tenant: string, known: KnownLists = new Map()): Promise<RecordedJob> {
    return recordedJob(this.#parts.bodies, await this.#found(jobId, tenant), known);
  }

  /** A job with its result as text, for answers that are sent as text. */
  async jobWithResult(jobId: string, tenant = DEFAULT_TENANT): Promise<JobWithResult> {
    const { job, payload, result } = await this.#found(jobId, tenant);
    if (await this.#isErased(job, [payload, result])) return { job, result: undefined, isErased: true };
    return { job, result: await this.#text(result) };
  }

  /** For runtime/ only: a job whose last change is durable, as it is now, with its result as text. */
  async entryWithResult(entry: JobEntry): Promise<JobWithResult> {
    const job = await withErrors(this.#parts.bodies.seals, this.entryNow(entry), entry);
    const { result } = entry.job;
    const text = await this.#text(result);
    const isErased = mayBeErased(entry)
      ? await this.#isErased(job, [entry.ask.payload, result])
      : text === undefined && result !== undefined;
    return { job, result: text, isErased };
  }

  /** For runtime/ only: a job whose last change is durable, as it is now, with its result. */
  async entryWithValue(entry: JobEntry): Promise<JobView> {
    return this.#withValue(
      await withErrors(this.#parts.bodies.seals, this.entryNow(entry), entry),
      entry.job.result,
    );
  }

  /** For runtime/ only. Synchronous: the view of a job whose last change is durable, without its result. */
  entryNow(entry: JobEntry): JobView {
    return viewOf(this.#parts.engine, entry, this.#parts.clock.now());
  }

  async jobs(request: ListRequest = {}, tenant = DEFAULT_TENANT): Promise<JobPage> {
    checkTenant(tenant);
    const checked = checkList(request);
    const { id_prefix } = checked;
    return id_prefix === undefined
      ? listJobs(this.#listing(), checked, tenant)
      : jobsWithPrefix(this.#listing(), { ...checked, id_prefix }, tenant);
  }

  /** For runtime/ only: the jobs that match, with their records. */
  find(query: HistoryQuery): Promise<StoredJob[]> {
    return findJobs(this.#listing(), query);
  }

  /** For runtime/ only: a job that was found, with its result, and its payload if that is `asked` for. */
  async bodiesOf({ view, ask, job }: StoredJob, asked: 'payload' | undefined): Promise<JobWithBodies> {
    const payload = asked ? await this.#text(ask.payload) : undefined;
    return { job: view, payload, result: await this.#text(job.result) };
  }

  #listing(): ListingParts {
    const { env, engine, store, clock, loop } = this.#parts;
    return {
      state: engine.state,
      queue: engine.queue,
      history: store.history,
      timers: env.timers,
      now: () => clock.now(),
      durable: (seq: number) => loop.durable(seq),
    };
  }

  /** Synchronous: the spec of a job in memory, once it is durable; a spec never changes. */
  spec(uid: string): JobSpec | undefined {
    const ask = this.#parts.engine.state.jobs.get(uid)?.ask;
    return ask && ask.n <= this.#parts.loop.durableSeq ? ask.spec : undefined;
  }

  /** Synchronous: the admission number of a job in memory. */
  admission(uid: string): number | undefined {
    return this.#parts.engine.state.jobs.get(uid)?.ask.n;
  }

  /** Synchronous: whether a job waits to run; false if its last change is not durable. */
  isWaiting(uid: string): boolean {
    return this.#waiting(uid) !== undefined;
  }

  /** Synchronous: the queue position of a job; undefined if it does not wait or its last change is not durable. */
  queuePosition(uid: string): QueuePosition | undefined {
    const { engine, clock } = this.#parts;
    const entry = this.#waiting(uid);
    if (!entry) return undefined;
    const position = jobPosition(entry);
    const hints = startHints(engine.state, entry.ask);
    return { position, predictedStartMs: predictStartMs(entry, position, clock.now(), hints) };
  }

  model(id: string): Promise<ModelView> {
    return this.#whenDurable(modelView(modelOf(this.#parts.engine.state, id)));
  }

  /** The record of a model by any of its names, for callers that go on to change it. */
  modelRecord(name: string): Promise<ModelRecord | undefined> {
    return this.#whenDurable(this.#parts.engine.state.catalog.find(name));
  }

  /** Sorted by id: the order must not depend on the order of registration. */
  models(): Promise<ModelView[]> {
    const models = [...this.#parts.engine.state.catalog.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.#whenDurable(models.map(modelView));
  }

  routes(): Promise<RouteView[]> {
    const routes = [...this.#parts.engine.state.tables.route.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.#whenDurable(routes.map(routeView));
  }

  route(id: string): Promise<RouteView> {
    const record = this.#parts.engine.state.tables.route.get(id);
    if (!record) throw new OrchdError('NOT_FOUND', `there is no route "${id}"`);
    return this.#whenDurable(routeView(record));
  }

  /** All names that a request may use for a model now, including models that only a backend offers. */
  modelNames(): Promise<ModelName[]> {
    return this.#whenDurable(modelNames(this.#parts.engine));
  }

  pools(): Promise<PoolView[]> {
    const { engine, poolAddress } = this.#parts;
    const pools = [...engine.state.pools.known.values()];
    return this.#whenDurable(pools.map((pool) => poolView(engine, pool, poolAddress(pool.report.id))));
  }

  pool(id: string): Promise<PoolView> {
    const { engine, poolAddress } = this.#parts;
    const pool = engine.state.pools.get(id);
    if (!pool) throw new OrchdError('NOT_FOUND', `there is no pool "${id}"`);
    return this.#whenDurable(poolView(engine, pool, poolAddress(id)));
  }

  /** Synchronous: whether the pool manager answered recently. This is not stored, so it waits for no commit. */
  isPoolUp(id: string): boolean {
    return this.#parts.engine.state.pools.get(id)?.up ?? false;
  }

  /**
   * The limits that a tenant has set; those of the default tenant are the operator's. With `about` only those whose
   * scopes are a part of that tenant.
   */
  limits(setBy = DEFAULT_TENANT, about?: string): Promise<readonly LimitSpec[]> {
    const limits = limitsOf(this.#parts.engine, setBy);
    return this.#whenDurable(
      about === undefined ? limits : limits.filter(({ scope }) => isScopeOf(scope, about)),
    );
  }

  /** The budgets that tokens have by the token file; with `about` only those of that tenant's tokens. */
  keyLimits(about?: string): Promise<readonly LimitSpec[]> {
    const limits = keyLimits(this.#parts.engine);
    return this.#whenDurable(
      about === undefined ? limits : limits.filter(({ scope }) => isScopeOf(scope, about)),
    );
  }

  prices(): Promise<readonly PriceSpec[]> {
    return this.#whenDurable(pricesOf(this.#parts.engine));
  }

  /** The leases of a tenant, or of all of them, without the internal ones that record on which node a backend is. */
  leases(tenant?: string): Promise<LeaseView[]> {
    const held = [...this.#parts.engine.state.leases.all()].filter(
      ({ record }) => isDeviceLease(record) && (tenant === undefined || record.tenant === tenant),
    );
    return this.#whenDurable(held.map(leaseView));
  }

  /** Synchronous: the backends describe themselves, which is not stored. */
  backends(): BackendView[] {
    return backendViews(this.#parts.engine, this.#parts.divergence.found);
  }

  /** Synchronous: some backend knows another copy of this store. */
  get isDiverged(): boolean {
    return this.#parts.divergence.found.length > 0;
  }

  /**
   * Synchronous: counts of everything at one instant, for metrics. They may be ahead of what is durable: metrics of a
   * brain that cannot commit must not wait for its commit.
   */
  figures(): Figures {
    return figuresOf(this.#parts.engine, this.#parts.clock.now());
  }

  /** Synchronous: see scaling-view.ts. */
  scaling(pool: string): ScalingView {
    return scalingView(this.#parts.engine, pool, this.#parts.clock.now());
  }

  /**
   * Synchronous: what runs, is held or is near its limit, for people. Jobs are listed if their last change is durable;
   * counts and the models of the catalog may be ahead of that, as in `figures`: a brain that cannot commit must be able
   * to say so.
   */
  status(tenant: string): StatusView {
    const { engine, clock, loop } = this.#parts;
    return statusView(engine, tenant, clock.now(), ({ seq }) => seq <= loop.durableSeq);
  }

  /** Synchronous: what is left behind if the brain stops now; can be called after the stop. */
  leftWork(endsWith: (pool: string) => boolean): LeftWork {
    return leftWork(this.#parts.engine, endsWith);
  }

  /** Synchronous: brain time. */
  get now(): number {
    return this.#parts.clock.now();
  }

  /** Synchronous: the disk is full, and new work is refused. */
  get full(): boolean {
    return this.#parts.engine.state.full;
  }

  /** Set by the start: the number of files with bodies that jobs refer to and that were missing. */
  missingBlobFiles = 0;

  /** Synchronous: no new work is started, because the brain is stopping. */
  get paused(): boolean {
    return this.#parts.engine.state.paused;
  }

  /** Synchronous: the epoch of this brain; undefined until it has started. */
  get epoch(): number | undefined {
    return this.#parts.engine.state.brain?.epoch;
  }

  #waiting(uid: string): JobEntry | undefined {
    const entry = this.#parts.engine.state.jobs.get(uid);
    return entry?.job.state === 'queued' && entry.seq <= this.#parts.loop.durableSeq ? entry : undefined;
  }

  #whenDurable<T>(value: T | Promise<T>): Promise<T> {
    return whenDurable(this.#parts, value);
  }

  /** A job from memory, once that is durable, or from the history. */
  async #found(jobId: string, tenant: string): Promise<FoundBodies> {
    const { engine, loop, store } = this.#parts;
    const uid = uidFor(tenant, jobId);
    const entry = engine.state.jobs.get(uid);
    if (entry) {
      const bodies = bodiesIn(entry, waitStateOf(engine.state, entry));
      const job = await withErrors(this.#parts.bodies.seals, this.entryNow(entry), entry);
      await loop.durable(entry.seq);
      return { ...bodies, job };
    }
    const bundle = await store.history.get(uid);
    if (!bundle) throw new OrchdError('NOT_FOUND', `there is no job "${jobId}"`);
    const job = await withErrors(this.#parts.bodies.seals, viewOfBundle(bundle), bundle);
    return { ...bodiesIn(bundle, bundle.job.wait?.state), job };
  }

  /** Whether the session of a job that has ended was deleted. A small body tells it without a read of a blob. */
  async #isErased(job: JobView, [payload, result]: [Body, Body | undefined]): Promise<boolean> {
    if (job.session_id === undefined || !isTerminal(job.state)) return false;
    return this.#parts.bodies.isErased(typeof result === 'string' ? result : payload);
  }

  async #text(body: Body | undefined): Promise<BodyText | undefined> {
    return body && (this.#parts.bodies.large.valueOf(body) ?? this.#parts.bodies.readable(body));
  }

  async #withValue(job: JobView, body: Body | undefined): Promise<JobView> {
    const text = body === undefined ? undefined : await this.#parts.bodies.readable(body);
    return text === undefined ? job : { ...job, result: JSON.parse(text) };
  }
}
