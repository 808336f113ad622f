/** The brain as a service: assembles engine, loop, store and effects, and offers the methods that callers use. */
import { Engine } from '../core/engine/engine.ts';
import type { ExecutionEvent } from '../core/ports/backend.ts';
import type { PoolManagers } from '../core/ports/pools.ts';
import type { JobEntry } from '../core/state/job-entry.ts';
import { commanderOf } from '../core/state/state.ts';
import { ByteRoom } from '../kit/byte-room.ts';
import type { Cancel } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';
import { Service } from '../kit/service.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobPage, JobView, Submitted } from '../model/http/jobs.ts';
import { type Change, DEFAULT_TENANT } from '../model/records.ts';
import { isTerminal } from '../model/states.ts';
import type { ListRequest, ResolveRequest, SubmitRequest } from '../model/submit.ts';
import type { Follower, Sink } from '../relay/follower.ts';
import type { LargeJson } from '../wire/route.ts';
import { BackendDirectory } from './backend-directory.ts';
import { Batches } from './batches.ts';
import { Bodies } from './bodies.ts';
import { BrainClock, reportSteps } from './brain-clock.ts';
import { BulkOrders } from './bulk-orders.ts';
import { type BrainCommands, commandsOf } from './commands.ts';
import type { Consumers } from './consumers/consumers.ts';
import { PulledWork } from './consumers/pulled-work.ts';
import { Divergence } from './divergence.ts';
import { Drain } from './drain.ts';
import { EffectRunner } from './effect-runner.ts';
import { Effects } from './effects.ts';
import { EndNotices } from './end-notices.ts';
import { Erasures } from './erasures.ts';
import { Following, type ReaderPosition } from './following.ts';
import { GuardedBackend } from './guarded.ts';
import { HistoryFeed } from './history-feed.ts';
import { JobEnds } from './job-ends.ts';
import { type FollowOptions, followed, type JobEvent } from './job-events.ts';
import { JobOrders } from './job-orders.ts';
import { type JobWithResult, jobText } from './job-text.ts';
import { Loop } from './loop.ts';
import { type ObservedState, type Observer, observedStateOf } from './observer.ts';
import { openInto } from './open-store.ts';
import { Outcomes } from './outcomes.ts';
import type { OrchestratorParts, RuntimeSettings } from './parts.ts';
import { type Caller, uidFor } from './prepare.ts';
import { Provisioning } from './provisioning.ts';
import { Purge } from './purge.ts';
import { Reads } from './reads.ts';
import { Reconciliation } from './reconciliation.ts';
import { Schedules } from './schedules.ts';
import { SessionArchive } from './session-archive.ts';
import { Sources } from './sources.ts';
import { storeEvents } from './store-events.ts';
import { Submissions, type SubmitOutcome } from './submissions.ts';
import { WaitStates } from './wait-states.ts';

export type { Observer, OrchestratorParts, RuntimeSettings };

export class Orchestrator extends Service {
  readonly #parts: OrchestratorParts;
  readonly #backends: BackendDirectory;
  readonly #sources: Sources;
  readonly #provisioning: Provisioning | undefined;
  readonly #engine: Engine;
  readonly #loop: Loop;
  readonly #runner: EffectRunner;
  readonly #effects: Effects;
  readonly #pulled: PulledWork;
  readonly #bodies: Bodies;
  readonly #erasures: Erasures;
  readonly #waitStates: WaitStates;
  readonly #submissions: Submissions;
  readonly #clock: BrainClock;
  readonly #purge: Purge;
  readonly #following: Following;
  readonly #history: HistoryFeed;
  readonly #endNotices: EndNotices;
  readonly #observed: ObservedState;
  readonly reads: Reads;
  /** Notifies subscribers of ended jobs, once that is durable. */
  readonly ends: JobEnds;
  /** The commands that change a job, without reading it afterwards. */
  readonly orders: JobOrders;
  /** Commands for all jobs that match a filter. */
  readonly bulk: BulkOrders;
  readonly batches: Batches;
  readonly leases: BrainCommands['leases'];
  readonly catalog: BrainCommands['catalog'];
  readonly sessions: BrainCommands['sessions'];
  readonly pools: BrainCommands['pools'];
  readonly limits: BrainCommands['limits'];
  readonly prices: BrainCommands['prices'];
  readonly moduleMarks: BrainCommands['moduleMarks'];
  readonly governance: BrainCommands['governance'];
  readonly policy: BrainCommands['policy'];
  readonly mcp: BrainCommands['mcp'];
  readonly schedules: Schedules;
  /** The requests of consumers. */
  readonly consumers: Consumers;
  readonly reconciliation: Reconciliation;
  /** Prepares the stop of this brain. */
  readonly drain: Drain;
  readonly #timers: Cancel[] = [];

  constructor(parts: OrchestratorParts) {
    super();
    const { env, store, settings, managers, logger } = parts;
    this.#parts = parts;
    this.#backends = new BackendDirectory(
      (backend) => new GuardedBackend(backend, env.timers, settings.holderLostMs, () => store.holds()),
    );
    for (const backend of parts.backends) this.#backends.put(backend);
    this.#engine = new Engine({ settings: settings.engine, random: () => env.random.next() });
    this.#clock = new BrainClock(env.clock);
    reportSteps(this.#clock, logger);
    this.ends = new JobEnds(logger);
    this.#bodies = new Bodies(store, env, parts.answerRoom ?? new ByteRoom(256 * 2 ** 20));
    this.#history = new HistoryFeed(store);
    this.#loop = new Loop(env, this.#engine, store, this.#clock, {
      awaited: (changes) => this.#pulled.hints.awaited(changes),
      settled: (entry) => this.#settled(entry),
      changed: (changes, now, tookMs) => this.#changed(changes, now, tookMs),
      reported: (seq) => this.#history.flushed(seq),
      failed: (error) => this.#failed(error),
    });
    const sessionArchive = new SessionArchive({ ...parts, engine: this.#engine, loop: this.#loop });
    const purged = { sessionArchive, logger, bodies: this.#bodies };
    this.#purge = new Purge(env, this.#loop, store, this.#clock, settings, purged);
    this.#observed = observedStateOf(this.#engine);
    const shared = {
      divergence: Divergence.of(store, logger, this.#loop),
      env,
      store,
      engine: this.#engine,
      loop: this.#loop,
      clock: this.#clock,
      bodies: this.#bodies,
      sessionArchive,
      backends: this.#backends,
      observer: parts.observer,
      observed: this.#observed,
    };
    this.reads = new Reads({ ...shared, poolAddress: (pool) => managers?.addressOf(pool) });
    const mayAct = (): boolean => store.holds();
    this.#runner = new EffectRunner(env, this.#loop);
    const acting = { ...shared, runner: this.#runner };
    this.#submissions = new Submissions({ ...shared, ...settings.engine });
    this.#following = new Following({ ...shared, who: () => commanderOf(this.#engine.state) });
    const onEvent = (entry: JobEntry, event: ExecutionEvent): void => this.#received(entry, event);
    const outcomes = new Outcomes({ ...acting, children: this.#submissions.children });
    const executing = { ...acting, outcomes, onEvent, holderLostMs: settings.holderLostMs };
    this.#pulled = new PulledWork({ ...executing, doorbell: parts.doorbell, mayAct });
    this.consumers = this.#pulled.consumers;
    this.#effects = new Effects({ ...executing, publish: (token) => this.#pulled.hints.publish(token) });
    this.#erasures = new Erasures({ ...acting, following: this.#following, effects: this.#effects });
    this.#waitStates = new WaitStates({ ...shared, logger });
    const commands = commandsOf({ ...shared, reads: this.reads, mayAct, erasures: this.#erasures });
    ({ leases: this.leases, catalog: this.catalog, sessions: this.sessions } = commands);
    ({ governance: this.governance, policy: this.policy, moduleMarks: this.moduleMarks } = commands);
    ({ pools: this.pools, limits: this.limits, prices: this.prices, mcp: this.mcp } = commands);
    this.schedules = new Schedules({ ...shared, submissions: this.#submissions });
    const sources = [...(managers ? [managers] : []), ...(parts.sources ?? [])];
    this.#sources = new Sources({ ...shared, sources });
    this.#provisioning = managers && new Provisioning({ ...acting, managers, mayAct });
    const assertOpen = (): void => this.#assertOpen();
    this.orders = new JobOrders({ ...shared, submissions: this.#submissions, reads: this.reads, assertOpen });
    this.bulk = new BulkOrders({ reads: this.reads, orders: this.orders, seq: () => this.#engine.state.seq });
    this.batches = new Batches({ ...shared, reads: this.reads, assertOpen });
    const reconciling = { ...this.#effects.forReconciliation, atStart: settings.reconcilesAtStart };
    this.reconciliation = new Reconciliation({ ...acting, logger, ...reconciling });
    this.#endNotices = new EndNotices({ reads: this.reads, following: this.#following, logger });
    this.drain = new Drain({ ...shared, atMostMs: settings.drainMs });
  }

  get failure(): Error | undefined {
    return this.#loop.failure;
  }

  get failed(): Promise<Error> {
    return this.#loop.failed;
  }

  /** For tests of the engine inside; everything else uses `reads`. */
  static engineOf(orchestrator: Orchestrator): Engine {
    return orchestrator.#engine;
  }

  protected async onStart(): Promise<void> {
    const { env, store, isCopy = false, logger } = this.#parts;
    const { state } = this.#engine;
    const events = { engine: this.#engine, loop: this.#loop, submissions: this.#submissions, logger };
    const recovered = await openInto(state, store, storeEvents(events), this.#clock.now());
    this.#clock.startAt(recovered.at, recovered.skewMs);
    await this.sessions.archive.begin();
    this.reads.missingBlobFiles = recovered.missingBlobFiles?.length ?? 0;
    // After opening the store: its lock guarantees that no other brain drives the same backends.
    for (const backend of this.#backends.values()) await backend.start?.();
    this.#loop.begin();
    // After `loop.begin`: the history answers with events, and the loop takes none before.
    this.#history.begin(state.ended, recovered.seq);
    this.drain.begin();
    this.#parts.observer?.recovered(this.#engine.state.jobs.values());
    await this.#loop.ask({ type: 'open', owner: env.random.hex(8), nonce: env.random.hex(8), isCopy });
    const known = [...this.#backends.values()].map(({ info }) => this.#loop.ask({ type: 'backend', info }));
    this.#timers.push(every(env.timers, this.#parts.settings.sweepIntervalMs, () => this.#sweep()));
    const purge = (): void => void this.#purge.runOrWarn();
    this.#timers.push(every(env.timers, this.#parts.settings.purgeIntervalMs, purge));
    this.#provisioning?.start();
    this.#sources.start();
    // Only after the engine has registered the backends it is known which of them are on this node.
    Promise.all(known).then(() => this.#sweep(), ignore);
  }

  protected async onStop(): Promise<void> {
    await this.drain.run();
    for (const cancel of this.#timers) cancel();
    this.#runner.stop();
    await this.#sources.stop();
    this.#loop.stop();
    this.#following.closeAll();
    await this.#parts.store.close();
    for (const backend of this.#backends.values()) await backend.stop?.();
  }

  submit(request: SubmitRequest, caller: Caller = {}): Promise<Submitted> {
    const closed = this.#closed();
    if (!closed) return this.#submissions.submitOne(request, caller);
    this.#submissions.noteRefusal(closed, caller);
    return Promise.reject(closed);
  }

  /** Submits jobs in one commit; returns an answer for each. */
  async submitMany(
    requests: readonly SubmitRequest[],
    caller: Caller = {},
  ): Promise<readonly SubmitOutcome[]> {
    const closed = this.#closed();
    if (!closed) return this.#submissions.submit(requests, caller);
    for (const _ of requests) this.#submissions.noteRefusal(closed, caller);
    throw closed;
  }

  async get(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    this.#assertOpen();
    return this.reads.job(jobId, tenant);
  }

  /** The job with its result and without its payload. */
  async getResult(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    this.#assertOpen();
    return this.reads.jobWithValue(jobId, tenant);
  }

  /** The job as JSON text. For a large body without room, `now` throws SERVER_BUSY, and `later` waits. */
  async getJson(
    jobId: string,
    tenant = DEFAULT_TENANT,
    when: 'now' | 'later' = 'now',
    include?: 'payload',
  ): Promise<string | LargeJson> {
    this.#assertOpen();
    return jobText(await this.reads.jobWithBodies(jobId, tenant, include), when);
  }

  async list(request: ListRequest = {}, tenant = DEFAULT_TENANT): Promise<JobPage> {
    this.#assertOpen();
    return this.reads.jobs(request, tenant);
  }

  /** Resolves to the job when it has ended. */
  async wait(jobId: string, tenant = DEFAULT_TENANT): Promise<JobView> {
    this.#assertOpen();
    const uid = uidFor(tenant, jobId);
    const entry = this.#engine.state.jobs.get(uid);
    if (entry && !isTerminal(entry.job.state)) return this.#endNotices.wait(uid);
    return this.get(jobId, tenant);
  }

  /** Yields the events of a job until its end; `after` is the id of the last event that the caller has received. */
  events(jobId: string, { tenant, ...options }: FollowOptions = {}): AsyncGenerator<JobEvent> {
    return followed((position, queue) => this.follow(jobId, position, queue, tenant), options);
  }

  /**
   * Adds a follower that writes to `sink`; resolves to undefined if the reader has received the end already. With
   * `refuses` it throws where a large result cannot be read now.
   */
  async follow(
    jobId: string,
    position: ReaderPosition,
    sink: Sink,
    tenant = DEFAULT_TENANT,
    refuses = true,
  ): Promise<Follower | undefined> {
    this.#assertOpen();
    const view = async (): Promise<JobWithResult> => {
      this.#assertOpen();
      return this.reads.jobWithResult(jobId, tenant);
    };
    return this.#following.follow(uidFor(tenant, jobId), position, sink, view, refuses);
  }

  get managers(): PoolManagers | undefined {
    return this.#parts.managers;
  }

  get following(): Following {
    return this.#following;
  }

  async cancel(jobId: string, by = 'caller', tenant = DEFAULT_TENANT): Promise<JobView> {
    await this.orders.cancel(jobId, by, tenant);
    return this.get(jobId, tenant);
  }

  async redrive(jobId: string, by = 'operator', tenant = DEFAULT_TENANT): Promise<JobView> {
    await this.orders.redrive(jobId, by, tenant);
    return this.get(jobId, tenant);
  }

  async resolve(
    jobId: string,
    how: ResolveRequest,
    by = 'operator',
    tenant = DEFAULT_TENANT,
  ): Promise<JobView> {
    await this.orders.resolve(jobId, how, by, tenant);
    return this.get(jobId, tenant);
  }

  async checkpoint(): Promise<void> {
    this.#assertOpen();
    return this.#parts.store.checkpoint();
  }

  #changed(changes: readonly Change[], now: number, tookMs: number): void {
    this.#effects.acknowledge(changes);
    this.#pulled.hints.closed(changes);
    this.#provisioning?.changed(changes);
    this.ends.changed(changes);
    this.reconciliation.changed(changes);
    this.#erasures.changed(changes);
    const { observer } = this.#parts;
    observer?.changed(changes, now, this.#observed);
    observer?.committed?.(tookMs);
  }

  #received(entry: JobEntry, event: ExecutionEvent): void {
    if (event.type === 'token') this.#parts.observer?.tokenReceived?.();
    this.#following.receive(entry, event);
  }

  /** When a change of a job is durable: starts its due effects, passes an ended job to the history, reports its end. */
  #settled(entry: JobEntry): void {
    // The job has changed again, which is not durable yet: this is called again when it is.
    if (entry.seq > this.#loop.durableSeq) {
      this.#history.movedOn(entry);
      return;
    }
    this.#effects.update(entry);
    this.#following.settled(entry);
    if (this.#engine.state.ended.has(entry)) this.#history.ended(entry);
    if (isTerminal(entry.job.state)) this.#endNotices.notify(entry);
  }

  #sweep(): void {
    if (this.#clock.mayExpire()) this.#loop.post({ type: 'tick' });
    if (this.#clock.mayExpire()) void this.sessions.archive.sweep(this.#clock.now());
    const { seq } = this.#engine.state;
    this.#loop.durable(seq).then(() => {
      this.reconciliation.sweep();
      this.#effects.sweep(seq);
      this.#pulled.hints.sweep();
      this.#erasures.sweep();
      void this.#waitStates.sweep();
      this.#provisioning?.sweep();
    }, ignore);
  }

  #failed(error: Error): void {
    this.#runner.stop();
    this.#following.closeAll();
    this.#endNotices.fail(error);
    const code = error instanceof OrchdError ? error.code : 'INTERNAL';
    if (code !== 'SHUTTING_DOWN') this.#parts.logger?.error('the brain has stopped', { error_code: code });
  }

  #closed(): Error | undefined {
    if (this.#loop.failure) return this.#loop.failure;
    return this.running
      ? undefined
      : new OrchdError('SHUTTING_DOWN', 'the orchestrator has not been started');
  }

  #assertOpen(): void {
    const closed = this.#closed();
    if (closed) throw closed;
  }
}

function ignore(): void {}
