/**
 * `Opened`: an engine on an open store, with a minimal replacement for the runtime around it. Tests drive the engine and
 * observe what the store reports.
 */

import assert from 'node:assert/strict';
import type { Submission } from '../../core/admission/submission.ts';
import type { EngineEvent } from '../../core/engine/areas.ts';
import { Engine, type Step } from '../../core/engine/engine.ts';
import type { Seq, Store } from '../../core/ports/store.ts';
import { type EngineSettings, POOL_DEFAULTS } from '../../core/settings.ts';
import { bundleOf, type JobEntry } from '../../core/state/job-entry.ts';
import type { BlobRef } from '../../model/body.ts';
import { type GivenSpec, type SpecDefaults, specOf } from '../../model/job-spec.ts';
import { tokenOf } from '../../model/records.ts';
import { openInto } from '../../runtime/open-store.ts';

/** The means that differ from store to store, or that only the test file has. */
export interface StoreFixture {
  /** Constructs a store, not opened yet, over the same data as the ones before it. */
  make(): Store;
  /** Keeps writes from becoming durable until the returned function is called. */
  hold(): () => void;
  /** Makes every later write fail. */
  breakWrites(): Promise<void>;
  /** Changes a reference so that it names a blob that does not exist. */
  lost(ref: BlobRef): BlobRef;
  /** Waits for `count` turns of the event loop. */
  turns(count: number): Promise<void>;
  /** Awaits the promise, and fails the test where it does not settle in time. */
  within(promise: Promise<unknown>): Promise<void>;
  remove(): Promise<void>;
}

/** Fields of a submission and of its spec in one object. */
export type SubmissionFields = Partial<Omit<Submission, 'spec'>> & GivenSpec;

/** The events of an earlier run of an engine, with their instants. */
export type RecordedEvents = readonly { readonly event: EngineEvent; readonly now: number }[];

export const NOW = 1_800_000_000_000;

const SETTINGS: EngineSettings = {
  devices: [],
  queueCapacity: 10_000,
  maxWaiting: 1000,
  queueBytes: 2 ** 30,
  queuePolicy: 'reject',
  maxPayloadBytes: 2 ** 24,
  batchMaxWaitMs: 300_000,
  batchShare: 10,
  maxTries: 3,
  backoff: { baseDelayMs: 1000, maxDelayMs: 60_000, jitter: 0 },
  failureCacheTtlMs: 3_600_000,
  failureCacheSize: 10_000,
  cancelDeadlineMs: 5000,
  busyPauseMs: 1000,
  pools: POOL_DEFAULTS,
  limits: [],
  prices: [],
  retryShare: 0.2,
  breaker: { failures: 5, pauseMs: 5000, maxPauseMs: 300_000 },
  sticky: { enabled: true, price: 10 },
};

export class Opened {
  readonly store: Store;
  readonly engine: Engine;
  /** The latest committed instant, as `store.open` returned it. */
  committedAt = 0;
  now = NOW;
  durable = 0;
  /** Every value that the store has reported as durable, in order. */
  readonly durables: Seq[] = [];
  /** The jobs that the store has reported as indexed, as of which change. */
  readonly indexed = new Map<string, Seq>();
  failure: Error | undefined;
  /** Set to false to stop handing ended jobs to the history, as a stopped brain does. */
  offers = true;
  readonly #offered = new Map<string, Seq>();
  #watchers: (() => void)[] = [];

  constructor(store: Store, settings: Partial<EngineSettings> = {}) {
    this.store = store;
    this.engine = new Engine({ settings: { ...SETTINGS, ...settings }, random: () => 0.5 });
  }

  static async on(fixture: StoreFixture, settings: Partial<EngineSettings> = {}): Promise<Opened> {
    const opened = new Opened(fixture.make(), settings);
    await opened.open();
    return opened;
  }

  async open(): Promise<void> {
    const { state } = this.engine;
    this.committedAt = (await openInto(state, this.store, this.#events(), this.now)).at;
    this.durable = state.seq;
    this.#offer(state.seq);
  }

  /** Runs one step of the engine and appends its changes to the store. */
  step(event: EngineEvent, now = this.now): Step {
    this.now = now;
    const step = this.engine.step(event, now);
    if (step.changes.length > 0) {
      const { state } = this.engine;
      assert.equal(this.store.append(step.changes, now), state.seq, 'the store counts as the engine does');
    }
    return step;
  }

  submit(id: string, fields: SubmissionFields = {}): JobEntry {
    this.step({
      type: 'submit',
      submissions: [{ ...NO_FIELDS, id, ...fields, spec: specOf(fields, { ...SPEC }) }],
    });
    return this.job(id, fields.tenant);
  }

  job(id: string, tenant = 'default'): JobEntry {
    return this.engine.state.jobs.get(tenant === 'default' ? id : `${tenant}~${id}`) as JobEntry;
  }

  /** Registers the backend that runs jobs of type `run`. */
  backend(): void {
    if (!this.engine.queue.fleet.backends.has('b')) this.step({ type: 'backend', info: BACKEND });
  }

  /** Submits a job and lets it succeed. */
  finish(id: string, fields: SubmissionFields = {}, result = '"done"'): JobEntry {
    this.backend();
    const entry = this.submit(id, fields);
    const token = tokenOf(entry.uid, entry.open?.n ?? 0);
    this.step({ type: 'outcome', token, outcome: { ok: true, result } });
    return entry;
  }

  /** Submits a job and lets it fail without a retry. */
  fail(id: string, fields: SubmissionFields = {}): void {
    this.backend();
    const { uid, open } = this.submit(id, fields);
    const error = { code: 'EXECUTION_FAILED', message: 'no', retriable: false } as const;
    this.step({ type: 'outcome', token: tokenOf(uid, open?.n ?? 0), outcome: { ok: false, error } });
  }

  /** Resolves once the condition holds; rejects once the store has failed. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.failure) throw this.failure;
      await new Promise<void>((resolve) => this.#watchers.push(resolve));
    }
  }

  /** Resolves once every change is durable. */
  async settled(): Promise<void> {
    await this.until(() => this.durable === this.engine.state.seq);
  }

  /** Resolves once every change is durable and every ended job has left memory for the history. */
  async handedOver(): Promise<void> {
    await this.until(() => this.durable === this.engine.state.seq && this.engine.state.ended.size === 0);
  }

  async close(): Promise<void> {
    await this.settled();
    await this.store.close();
  }

  #events() {
    return {
      durable: (seq: Seq) => {
        this.durable = seq;
        this.durables.push(seq);
        if (this.offers) this.#offer(seq);
        this.#changed();
      },
      indexed: (jobs: readonly { uid: string; seq: Seq }[]) => {
        for (const { uid, seq } of jobs) this.indexed.set(uid, seq);
        this.step({ type: 'indexed', uids: jobs });
        this.#changed();
      },
      space: () => this.#changed(),
      failed: (error: Error) => {
        this.failure = error;
        this.#changed();
      },
      ask: (uid: string) => this.engine.state.jobs.get(uid)?.ask,
    };
  }

  /** Hands the jobs that have ended at or before `upTo` to the history, each end once. */
  #offer(upTo: Seq): void {
    const ended = [...this.engine.state.ended].filter(
      ({ uid, seq }) => seq <= upTo && this.#offered.get(uid) !== seq,
    );
    for (const { uid, seq } of ended) this.#offered.set(uid, seq);
    this.store.index(ended.map(bundleOf), upTo);
  }

  #changed(): void {
    for (const wake of this.#watchers.splice(0)) wake();
  }
}

const BACKEND = {
  name: 'b',
  kind: 'fake',
  slots: 1000,
  types: ['run'],
  models: ['m', 'unpriced'],
  labels: {},
  paid: false,
  keepsResults: true,
  registry: 'r',
};

const SPEC: SpecDefaults = {
  agent: 'someone',
  type: 'run',
  priority: 'batch',
  score: 0,
  weight: 1,
  max_tries: 3,
};

const NO_FIELDS: Submission = {
  id: '',
  tenant: 'default',
  submittedBy: 'someone',
  spec: specOf({}, { ...SPEC }),
  payload: '{}',
  payloadBytes: 2,
  modelRef: undefined,
  contextTokens: undefined,
  tokens: undefined,
  hash: undefined,
  correlationId: undefined,
  forceRetry: false,
  bodyStored: true,
  known: undefined,
};

/** Closes a store and opens another one over the same data. */
export async function reopen(
  fixture: StoreFixture,
  opened: Opened,
  settings: Partial<EngineSettings> = {},
): Promise<Opened> {
  await opened.close();
  return Opened.on(fixture, settings);
}
