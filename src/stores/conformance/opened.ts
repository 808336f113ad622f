/** An engine on an opened store, with the least of a shell around it: what a store must work with. */

import assert from 'node:assert/strict';
import type { Submission } from '../../core/admission/submission.ts';
import type { EngineEvent } from '../../core/engine/areas.ts';
import { Engine, type Step } from '../../core/engine/engine.ts';
import type { Seq, Store } from '../../core/ports/store.ts';
import { type EngineSettings, POOL_DEFAULTS } from '../../core/settings.ts';
import { bundleOf, type JobEntry } from '../../core/state/job-entry.ts';
import { type GivenSpec, type SpecDefaults, specOf } from '../../model/job-spec.ts';
import { type BlobRef, tokenOf } from '../../model/records.ts';
import { openInto } from '../../runtime/open-store.ts';

/** What a store is tested on: everything that differs from store to store. */
export interface StoreFixture {
  /** A store over the same medium as those before it, not opened yet. */
  make(): Store;
  /** Keeps writes from becoming durable until the returned function is called. */
  hold(): () => void;
  /** From now on no write succeeds. */
  breakWrites(): Promise<void>;
  /** A reference like this one, to a blob that is not there. */
  lost(ref: BlobRef): BlobRef;
  /** Lets everything happen that is already waiting to happen. */
  turns(count: number): Promise<void>;
  /** Fails where a promise is never kept, instead of waiting for ever. */
  within(promise: Promise<unknown>): Promise<void>;
  remove(): Promise<void>;
}

/** Fields of a submission and of its spec, side by side. */
export type Fields = Partial<Omit<Submission, 'spec'>> & GivenSpec;

/** Events as they were given to an engine once. */
export type Story = readonly { readonly event: EngineEvent; readonly now: number }[];

export const NOW = 1_800_000_000_000;

const SETTINGS: EngineSettings = {
  devices: [],
  queueCapacity: 10_000,
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
};

export class Opened {
  readonly store: Store;
  readonly engine: Engine;
  /** What the store returned: the latest instant that was committed before. */
  committedAt = 0;
  now = NOW;
  durable = 0;
  readonly durables: Seq[] = [];
  readonly indexed = new Map<string, Seq>();
  failure: Error | undefined;
  /** Whether it still hands ended jobs on: a brain that has stopped does not. */
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

  /** One step; its changes go to the store. */
  step(event: EngineEvent, now = this.now): Step {
    this.now = now;
    const step = this.engine.step(event, now);
    if (step.changes.length > 0) {
      const { state } = this.engine;
      assert.equal(this.store.append(step.changes, now), state.seq, 'the store counts as the engine does');
    }
    return step;
  }

  submit(id: string, fields: Fields = {}): JobEntry {
    this.step({
      type: 'submit',
      submissions: [{ ...NO_FIELDS, id, ...fields, spec: specOf(fields, { ...SPEC }) }],
    });
    return this.job(id, fields.tenant);
  }

  job(id: string, tenant = 'default'): JobEntry {
    return this.engine.state.jobs.get(tenant === 'default' ? id : `${tenant}~${id}`) as JobEntry;
  }

  /** A job that has run and ended. */
  finish(id: string, fields: Fields = {}, result = '"done"'): JobEntry {
    if (!this.engine.queue.fleet.backends.has('b')) this.step({ type: 'backend', info: BACKEND });
    const entry = this.submit(id, fields);
    const token = tokenOf(entry.uid, entry.open?.n ?? 0);
    this.step({ type: 'outcome', token, outcome: { ok: true, result } });
    return entry;
  }

  /** A job that has failed for good. */
  fail(id: string, fields: Fields = {}): void {
    if (!this.engine.queue.fleet.backends.has('b')) this.step({ type: 'backend', info: BACKEND });
    const { uid, open } = this.submit(id, fields);
    const error = { code: 'EXECUTION_FAILED', message: 'no', retriable: false } as const;
    this.step({ type: 'outcome', token: tokenOf(uid, open?.n ?? 0), outcome: { ok: false, error } });
  }

  /** Resolves as soon as it is so. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) {
      if (this.failure) throw this.failure;
      await new Promise<void>((resolve) => this.#watchers.push(resolve));
    }
  }

  async settled(): Promise<void> {
    await this.until(() => this.durable === this.engine.state.seq);
  }

  /** Every ended job is in the history, and out of memory. */
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
    };
  }

  /** Hands over what has ended by a change, each end once. */
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
  models: undefined,
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

/** Closes a store and opens the next one over the same medium. */
export async function reopen(
  fixture: StoreFixture,
  opened: Opened,
  settings: Partial<EngineSettings> = {},
): Promise<Opened> {
  await opened.close();
  return Opened.on(fixture, settings);
}
