/** A bare engine to play with: a clock that is moved by hand, quick submits, and answers of made-up backends. */

import type { Submission } from '../../src/core/admission/submission.ts';
import type { Finding, KillAnswer, OfferAnswer } from '../../src/core/attempts/reports.ts';
import type { EngineEvent } from '../../src/core/engine/areas.ts';
import { Engine, type Step } from '../../src/core/engine/engine.ts';
import type { CancelAnswer, SubmitAnswer } from '../../src/core/engine/jobs.ts';
import type { BackendInfo, Outcome } from '../../src/core/ports/backend.ts';
import { Restore } from '../../src/core/restore.ts';
import { type EngineSettings, POOL_DEFAULTS } from '../../src/core/settings.ts';
import { JobEntry } from '../../src/core/state/job-entry.ts';
import { errorInfo, OrchdError } from '../../src/model/errors.ts';
import {
  type GivenSpec,
  type JobSpec,
  SPEC_FIELDS,
  type SpecDefaults,
  specOf,
} from '../../src/model/job-spec.ts';
import { FRESH_JOB } from '../../src/model/moves.ts';
import { type AskRecord, type Change, tokenOf } from '../../src/model/records.ts';

export const SETTINGS: EngineSettings = {
  devices: [],
  queueCapacity: 1000,
  maxWaiting: 1000,
  queueBytes: 2 ** 20,
  queuePolicy: 'reject',
  maxPayloadBytes: 2 ** 16,
  batchMaxWaitMs: 300_000,
  batchShare: 10,
  maxTries: 3,
  backoff: { baseDelayMs: 1000, maxDelayMs: 60_000, jitter: 0 },
  failureCacheTtlMs: 3_600_000,
  failureCacheSize: 100,
  cancelDeadlineMs: 5000,
  busyPauseMs: 1000,
  pools: POOL_DEFAULTS,
  limits: [],
  prices: [],
  retryShare: 0.2,
  breaker: { failures: 5, pauseMs: 5000, maxPauseMs: 300_000 },
  sticky: { enabled: true, price: 10 },
};

export const START = 1_000_000;

export const SUCCESS: Outcome = { ok: true, result: '"done"' };
export const FAILED: Outcome = { ok: false, error: errorInfo('EXECUTION_FAILED') };
export const FAILED_FOR_NOW: Outcome = { ok: false, error: errorInfo('WORKER_TIMEOUT') };
export const STOPPED: Outcome = { ok: 'cancelled' };
export const TURNED_AWAY: Outcome = {
  ok: 'turned_away',
  why: 'rate_limited',
  error: errorInfo('RATE_LIMITED'),
};

/** Fields of a submission and of its spec, side by side. */
export type Fields = Partial<Submission> & GivenSpec;

/** Defaults of a job's spec in engine tests. */
export const SPEC: SpecDefaults = {
  agent: 'someone',
  type: 't',
  priority: 'batch',
  score: 0,
  weight: 1,
  max_tries: SETTINGS.maxTries,
};

/** The same fields with those of the spec where they belong. */
export function nested<T extends object>(
  fields: T,
  spec: JobSpec,
): Omit<T, keyof JobSpec> & { spec: JobSpec } {
  const own = Object.entries(fields).filter(([name]) => !Object.hasOwn(SPEC_FIELDS, name));
  return { spec: specOf(fields, { ...spec }), ...Object.fromEntries(own) } as never;
}

/** The fields of an ask are taken too, for entries that are made without an engine. */
const KNOWN: ReadonlySet<string> = new Set(
  'id tenant submittedBy spec payload payloadBytes modelRef contextTokens tokens maxOutput messages images unboundedBy route hash correlationId forceRetry allowedModels isProposal lease unrunnable bodyStored known ends session n v createdAt ancestors'.split(
    ' ',
  ),
);

export function submission(id: string, fields: Fields = {}): Submission {
  const made = {
    id,
    tenant: 'default',
    submittedBy: 'someone',
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
    ...nested(fields, specOf({}, { ...SPEC })),
  };
  const unknown = Object.keys(fields).find((name) => !(name in SPEC_FIELDS) && !KNOWN.has(name));
  if (unknown !== undefined) throw new Error(`a submission has no field "${unknown}"`);
  return made;
}

/** A job as it would be in memory, outside any engine. */
export function makeEntry(n: number, fields: Partial<AskRecord> & GivenSpec = {}): JobEntry {
  const { forceRetry: _, known: __, bodyStored: ___, ...ask } = submission(`j${n}`, fields);
  const rest = { v: 2 as const, n, createdAt: START, ancestors: undefined };
  return new JobEntry(`j${n}`, { ...rest, ...ask }, FRESH_JOB, n);
}

export const backendInfo = (name: string, fields: Partial<BackendInfo> = {}): BackendInfo => ({
  name,
  kind: 'fake',
  slots: 1,
  types: undefined,
  models: undefined,
  labels: {},
  paid: false,
  keepsResults: true,
  registry: `registry of ${name}`,
  ...fields,
});

export class EngineKit {
  readonly engine: Engine;
  /** Every change so far, with the instant it was made at. */
  readonly log: { readonly change: Change; readonly at: number }[] = [];
  /** Every event so far, with the instant it was given at. */
  readonly events: { readonly event: EngineEvent; readonly now: number }[] = [];
  now = START;

  /** `engine`: one that has records already, and that the caller opens. */
  constructor(settings: Partial<EngineSettings> = {}, random: () => number = () => 0, engine?: Engine) {
    this.engine = engine ?? new Engine({ settings: { ...SETTINGS, ...settings }, random });
    if (!engine) this.step({ type: 'open', owner: 'kit' });
  }

  step(event: EngineEvent): Step {
    this.events.push({ event, now: this.now });
    const step = this.engine.step(event, this.now);
    for (const change of step.changes) this.log.push({ change, at: this.now });
    return step;
  }

  /** Lets time pass, and ticks where it brings something about. */
  pass(ms: number): void {
    const end = this.now + ms;
    for (let at = this.engine.nextWake(); at <= end; at = this.engine.nextWake()) {
      this.now = Math.max(this.now, at);
      this.step({ type: 'tick' });
    }
    this.now = end;
    this.step({ type: 'tick' });
  }

  backend(name: string, fields: Partial<BackendInfo> = {}): void {
    this.step({ type: 'backend', info: backendInfo(name, fields) });
  }

  trySubmit(id: string, fields: Fields = {}): SubmitAnswer | OrchdError {
    const { reply } = this.step({ type: 'submit', submissions: [submission(id, fields)] });
    return (reply as (SubmitAnswer | OrchdError)[])[0]!;
  }

  submit(id: string, fields: Fields = {}): SubmitAnswer {
    return orThrow(this.trySubmit(id, fields));
  }

  job(uid: string): JobEntry {
    const entry = this.engine.state.jobs.get(uid);
    if (!entry) throw new Error(`no job "${uid}" in memory`);
    return entry;
  }

  state(uid: string): string {
    return this.job(uid).job.state;
  }

  /** The token of the open attempt. */
  token(uid: string): string {
    const { open } = this.job(uid);
    if (!open) throw new Error(`"${uid}" has no open attempt`);
    return tokenOf(uid, open.n);
  }

  offered(uid: string, answer: OfferAnswer): Step {
    return this.step({ type: 'offered', token: this.token(uid), answer });
  }

  accept(uid: string): Step {
    return this.offered(uid, { is: 'accepted' });
  }

  end(uid: string, outcome: Outcome): Step {
    return this.step({ type: 'outcome', token: this.token(uid), outcome });
  }

  found(uid: string, finding: Finding): Step {
    return this.step({ type: 'found', token: this.token(uid), finding });
  }

  killed(uid: string, answer: KillAnswer): Step {
    return this.step({ type: 'killed', token: this.token(uid), answer });
  }

  lose(uid: string): Step {
    return this.step({ type: 'lost', token: this.token(uid) });
  }

  order(event: Extract<EngineEvent, { type: 'redrive' | 'resolve' | 'answer' }>): SubmitAnswer {
    return orThrow(this.step(event).reply as SubmitAnswer | OrchdError);
  }

  /** Repeats the command until all descendants are cancelled, as the loop of the runtime does. */
  cancel(uid: string): SubmitAnswer {
    for (;;) {
      const { reply } = this.step({ type: 'cancel', uid, by: 'test' });
      const { job, isPartial } = orThrow(reply as CancelAnswer | OrchdError);
      if (!isPartial) return job as SubmitAnswer;
    }
  }

  redrive(uid: string): SubmitAnswer {
    return this.order({ type: 'redrive', uid, by: 'test', known: undefined });
  }

  /** Every job that was claimed, in order. */
  get claims(): string[] {
    return this.log.filter(({ change }) => isClaim(change)).map(({ change }) => change.id);
  }
}

/** A later brain with the records of an earlier one. */
export function reopened(before: EngineKit, settings: Partial<EngineSettings>): EngineKit {
  const engine = new Engine({ settings: { ...SETTINGS, ...settings }, random: () => 0 });
  const kit = new EngineKit({}, () => 0, engine);
  kit.now = before.now;
  const restore = new Restore(engine.state, kit.now);
  for (const [at, { change }] of before.log.entries()) restore.change(change, at + 1);
  restore.finish({ seq: before.engine.state.seq, at: kit.now, indexedUpTo: 0 });
  kit.step({ type: 'open', owner: 'kit' });
  return kit;
}

const isClaim = (change: Change): boolean => change.kind === 'job' && change.after?.state === 'claimed';

function orThrow<T>(reply: T | OrchdError): T {
  if (reply instanceof OrchdError) throw reply;
  return reply;
}

/** Matches a refusal by code and reason, for assert.throws. */
export const refusal =
  (code: string, reason?: string) =>
  (error: unknown): boolean =>
    error instanceof OrchdError && error.code === code && error.details.reason === reason;
