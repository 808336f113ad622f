/**
 * The only way to read what the brain knows; nobody outside of runtime/ sees the engine.
 *
 * R1  What is told was durable when it was told: a read is made at one instant and answered once everything it
 *     saw is on stable storage. The few reads that answer at once say so: of jobs they tell only what is durable
 *     already, beside that only what is no record.
 * R2  Instants and waits are in brain time, never in that of the wall clock.
 */

import { modelOf } from '../core/admission/model.ts';
import { LIMITS_ID } from '../core/admission/quota.ts';
import type { Engine } from '../core/engine/engine.ts';
import type { Store } from '../core/ports/store.ts';
import { jobPosition, predictStartMs } from '../core/scheduling/predict.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { startHints } from '../core/workers/forecast.ts';
import { checker } from '../kit/check.ts';
import { OrchdError } from '../model/errors.ts';
import type { ModelView } from '../model/http/catalog.ts';
import type { JobPage, JobView } from '../model/http/jobs.ts';
import type { LeaseView } from '../model/http/leases.ts';
import type { BackendView } from '../model/http/meta.ts';
import type { PoolView } from '../model/http/pools.ts';
import type { SessionView } from '../model/http/sessions.ts';
import type { JobSpec } from '../model/job-spec.ts';
import { type Body, DEFAULT_TENANT, type LimitSpec, type ModelRecord } from '../model/records.ts';
import { ListRequest } from '../model/submit.ts';
import type { Bodies } from './bodies.ts';
import type { BrainClock } from './brain-clock.ts';
import { type Figures, figuresOf } from './figures.ts';
import { type JobWithResult, jobValue } from './job-text.ts';
import { listJobs } from './listing.ts';
import type { Loop } from './loop.ts';
import { checkTenant, uidFor } from './prepare.ts';
import { viewOf, viewOfBundle } from './view.ts';
import {
  backendView,
  leaseView,
  type ModelName,
  modelNames,
  modelView,
  poolView,
  sessionView,
} from './views.ts';

const checkList = checker(ListRequest);

export interface ReadsParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly store: Store;
  readonly bodies: Bodies;
  readonly clock: BrainClock;
}

/** Where a job stands that waits for a backend. */
export interface Place {
  readonly position: number | undefined;
  readonly predictedStartMs: number | undefined;
}

export class Reads {
  readonly #parts: ReadsParts;

  constructor(parts: ReadsParts) {
    this.#parts = parts;
  }

  /** A job with its result, in memory or in the history. */
  async job(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    return jobValue(await this.jobWithResult(jobId, tenant));
  }

  /** The same with its result as text, for answers that are text. */
  async jobWithResult(jobId: string, tenant = DEFAULT_TENANT): Promise<JobWithResult> {
    const uid = uidFor(tenant, jobId);
    const entry = this.#parts.engine.state.jobs.get(uid);
    if (entry) return this.entry(entry);
    const bundle = await this.#parts.store.history.get(uid);
    if (!bundle) throw new OrchdError('NOT_FOUND', `there is no job "${jobId}"`);
    return { job: viewOfBundle(bundle), resultText: await this.#resultText(bundle.job.result) };
  }

  /** For runtime/ alone: a job in memory, as it was when it was read. */
  async entry(entry: JobEntry): Promise<JobWithResult> {
    const job = this.entryNow(entry);
    const { seq } = entry;
    const { result } = entry.job;
    await this.#parts.loop.durable(seq);
    return { job, resultText: await this.#resultText(result) };
  }

  /** For runtime/ alone: the same at once, without its result, of a job whose last change is durable. */
  entryNow(entry: JobEntry): JobView {
    return viewOf(this.#parts.engine.state, entry, this.#parts.clock.now());
  }

  async jobs(request: ListRequest = {}, tenant = DEFAULT_TENANT): Promise<JobPage> {
    checkTenant(tenant);
    const { engine, store, clock } = this.#parts;
    return this.#seen(listJobs(engine.state, store.history, checkList(request), tenant, clock.now()));
  }

  /** At once: what was asked of a job that is in memory. An ask never changes, and counts once it is durable. */
  spec(uid: string): JobSpec | undefined {
    const ask = this.#parts.engine.state.jobs.get(uid)?.ask;
    return ask && ask.n <= this.#parts.loop.durableSeq ? ask.spec : undefined;
  }

  /** At once: whether a job waits to be run; false where its last move is not durable. */
  isWaiting(uid: string): boolean {
    return this.#waiting(uid) !== undefined;
  }

  /** At once: where a waiting job stands; undefined for one that does not wait, or whose last move is not durable. */
  place(uid: string): Place | undefined {
    const { engine, clock } = this.#parts;
    const entry = this.#waiting(uid);
    if (!entry) return undefined;
    const position = jobPosition(entry);
    const hints = startHints(engine.state, entry.ask);
    return { position, predictedStartMs: predictStartMs(entry, position, clock.now(), hints) };
  }

  model(id: string): Promise<ModelView> {
    return this.#seen(modelView(modelOf(this.#parts.engine.state, id)));
  }

  /** The record behind a name, for those who go on to change it. */
  modelRecord(name: string): Promise<ModelRecord | undefined> {
    return this.#seen(this.#parts.engine.state.catalog.find(name));
  }

  /** By their ids: the order must not depend on how they came here. */
  models(): Promise<ModelView[]> {
    const models = [...this.#parts.engine.state.catalog.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    return this.#seen(models.map(modelView));
  }

  /** Every name by which a model can be asked for now, those of backends that the catalog does not know included. */
  modelNames(): Promise<ModelName[]> {
    return this.#seen(modelNames(this.#parts.engine));
  }

  session(tenant: string, id: string): Promise<SessionView> {
    const { state } = this.#parts.engine;
    const record = state.sessionOf(tenant, id);
    if (!record) throw new OrchdError('NOT_FOUND', `there is no session "${id}"`);
    return this.#seen(sessionView(state, record));
  }

  pools(): Promise<PoolView[]> {
    const { engine } = this.#parts;
    return this.#seen([...engine.state.pools.known.values()].map((pool) => poolView(engine, pool)));
  }

  pool(id: string): Promise<PoolView> {
    const { engine } = this.#parts;
    const pool = engine.state.pools.get(id);
    if (!pool) throw new OrchdError('NOT_FOUND', `there is no pool "${id}"`);
    return this.#seen(poolView(engine, pool));
  }

  /** At once: whether a pool manager has answered of late. That is not a record, and waits for no commit. */
  isPoolUp(id: string): boolean {
    return this.#parts.engine.state.pools.get(id)?.up ?? false;
  }

  limits(): Promise<readonly LimitSpec[]> {
    const { state, settings } = this.#parts.engine;
    return this.#seen(state.tables.limits.get(LIMITS_ID)?.limits ?? settings.limits);
  }

  /** The leases of a tenant; those that say at which node a backend is are not lent to anybody. */
  leases(tenant: string): Promise<LeaseView[]> {
    const held = [...this.#parts.engine.state.leases.all()].filter(
      ({ record }) => record.tenant === tenant && record.ttlMs !== undefined,
    );
    return this.#seen(held.map(leaseView));
  }

  /** At once: what backends say of themselves is no record. */
  backends(): BackendView[] {
    return [...this.#parts.engine.queue.fleet.backends.values()].map(backendView);
  }

  /**
   * At once: numbers about everything at one instant, for metrics. They may be a flush ahead of what is durable: who
   * watches a brain that can commit nothing must not wait for its commit.
   */
  figures(): Figures {
    return figuresOf(this.#parts.engine);
  }

  /** At once: the disk is full, and new work is refused. */
  get full(): boolean {
    return this.#parts.engine.state.full;
  }

  /** At once: nothing new is started, because the brain stops. */
  get paused(): boolean {
    return this.#parts.engine.state.paused;
  }

  /** At once: the epoch of this brain; undefined until it has begun. */
  get epoch(): number | undefined {
    return this.#parts.engine.state.brain?.epoch;
  }

  #waiting(uid: string): JobEntry | undefined {
    const entry = this.#parts.engine.state.jobs.get(uid);
    const isTold = entry?.job.state === 'queued' && entry.seq <= this.#parts.loop.durableSeq;
    return isTold ? entry : undefined;
  }

  /** What is seen now, told when all of it is durable. */
  async #seen<T>(value: T | Promise<T>): Promise<T> {
    const { engine, loop } = this.#parts;
    const { seq } = engine.state;
    const [told] = await Promise.all([value, loop.durable(seq)]);
    return told;
  }

  async #resultText(body: Body | undefined): Promise<string | undefined> {
    return body === undefined ? undefined : this.#parts.bodies.read(body);
  }
}
