/**
 * Converts stored records of older versions into the current shape. A record of a newer version is refused: starting on
 * half-understood state is worse than not starting.
 */
import { OrchdError } from './errors.ts';
import { type JobSpec, SPEC_FIELDS, type SpecDefaults, specOf } from './job-spec.ts';
import type { LeaseRecord } from './lease-record.ts';
import { FRESH_JOB } from './moves.ts';
import type {
  AskRecord,
  AttemptRecord,
  BrainRecord,
  FailureRecord,
  JobRecord,
  RecordKind,
  RecordKinds,
} from './records.ts';
import { countsOf } from './usage.ts';

/** The version that this program writes, by kind. Each older version has an upcaster in UPCASTERS. */
export const RECORD_VERSIONS: Record<RecordKind, number> = {
  ask: 2,
  job: 2,
  attempt: 3,
  failure: 1,
  brain: 1,
  lease: 2,
  model: 1,
  session: 3,
  pool: 1,
  worker: 2,
  demand: 1,
  limits: 1,
  spent: 1,
  prices: 1,
  route: 1,
  batch: 1,
  failed_dependency: 1,
  erasure: 1,
  wait_state: 1,
  schedule: 1,
  module: 1,
  governance: 1,
  policy: 1,
  mcp_pin: 1,
  mcp_task: 1,
  consumer: 1,
  worker_pool: 1,
};

type Stored = Record<string, unknown> & { v: number };
type Upcaster = (stored: Stored) => Stored;

/** UPCASTERS[kind][n] turns version n into n + 1. */
const UPCASTERS: Partial<Record<RecordKind, Record<number, Upcaster>>> = {
  ask: { 1: nestSpec },
  // Jobs of version 1 do not wait for others: a program that knows no such jobs must refuse version 2.
  job: { 1: (stored) => ({ ...stored, v: 2 }) },
  // Attempts of version 2 have no holder: a program that knows none would ask a backend that is not there.
  attempt: { 1: splitUsage, 2: (stored) => ({ ...stored, v: 3 }) },
  // Sessions of version 1 have no messages: a program that does not know them would lose them.
  session: { 1: (stored) => ({ ...stored, v: 2 }), 2: nameThreads },
  // Leases of version 1 were on devices of the configuration alone: a program that knows no others would lend twice.
  lease: { 1: (stored) => ({ ...stored, v: 2 }) },
  // In version 1, `why` was a sentence.
  worker: { 1: (stored) => ({ ...stored, v: 2, why: { is: 'text', text: stored['why'] } }) },
};

/** The fields of version 1 of an ask that have another name in the spec. */
const SPEC_NAMES_V1: Readonly<Record<string, keyof JobSpec>> = {
  principal: 'agent',
  class: 'priority',
  kind: 'backend',
  session: 'session_id',
  notBefore: 'not_before',
  timeoutMs: 'timeout_ms',
  maxTries: 'max_tries',
  parent: 'parent_id',
  onUnknown: 'on_unknown',
  afterOutput: 'after_output',
  onDisconnect: 'on_disconnect',
};

/** Version 1 of an ask had the caller's options at its top level, and the deadline as an instant. */
function nestSpec(stored: Stored): Stored {
  const { deadlineAt, createdAt } = stored as unknown as { deadlineAt?: number; createdAt: number };
  const ask: Stored = { v: 2 };
  const spec: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(stored)) {
    if (name === 'v' || name === 'deadlineAt') continue;
    const inSpec = SPEC_NAMES_V1[name] ?? name;
    if (Object.hasOwn(SPEC_FIELDS, inSpec)) spec[inSpec] = value;
    else ask[name] = value;
  }
  if (deadlineAt !== undefined) spec['deadline_ms'] = deadlineAt - createdAt;
  return { ...ask, spec: specOf(spec, { ...SPEC_DEFAULTS }) };
}

/** Version 2 of a session named the last backend only, and not what it had heard. */
function nameThreads({ backend, ...rest }: Stored): Stored {
  const threads = backend !== undefined && { threads: [{ backend, heard: 0 }] };
  return { ...rest, v: 3, ...threads };
}

/** Version 1 of an attempt had two counts of tokens, and no others were known then. */
function splitUsage(stored: Stored): Stored {
  const { usage, ...rest } = stored as Stored & { usage?: { prompt: number; completion: number } };
  const counts = usage && countsOf({ prompt_tokens: usage.prompt, completion_tokens: usage.completion });
  return { ...rest, v: 2, ...(counts && { usage: counts }) };
}

const SPEC_DEFAULTS: SpecDefaults = {
  agent: '',
  type: '',
  priority: 'batch',
  score: 0,
  weight: 1,
  max_tries: 1,
};

const NO_ASK: Omit<AskRecord, 'spec'> = {
  v: 2,
  id: '',
  tenant: '',
  n: 0,
  createdAt: 0,
  submittedBy: '',
  payload: 'null',
  payloadBytes: 4,
  modelRef: undefined,
  contextTokens: undefined,
  tokens: undefined,
  ancestors: undefined,
  hash: undefined,
  correlationId: undefined,
};

const NO_ATTEMPT: AttemptRecord = {
  v: 3,
  job: '',
  n: 0,
  backend: '',
  registry: undefined,
  state: 'intended',
  epoch: 0,
  at: 0,
  acceptedAt: undefined,
  endedAt: undefined,
  outcome: undefined,
  error: undefined,
  kill: undefined,
  bill: undefined,
};

const NO_LEASE: LeaseRecord = {
  v: 2,
  tenant: '',
  agent: '',
  pool: undefined,
  gpuIndex: undefined,
  minMemoryMb: 0,
  othersBytes: undefined,
  attempt: undefined,
  fence: 0,
  grantedAt: 0,
  ttlMs: undefined,
  heartbeatAt: 0,
  expiresAt: undefined,
  registry: undefined,
};

const NO_MODEL = {
  vramGuessed: undefined,
  slots: undefined,
  sha256: undefined,
  signature: undefined,
  publicKey: undefined,
  verified: undefined,
};
const NO_SESSION = {
  tokenBudget: undefined,
  threads: undefined,
  messages: undefined,
  metadata: undefined,
};
const NO_POOL = { draining: undefined, drainBy: undefined, reload: undefined };
const NO_BATCH = { name: undefined, tags: undefined };
const NO_SCHEDULE = {
  cron: undefined,
  everyMs: undefined,
  models: undefined,
  last: undefined,
  lastJob: undefined,
};
const NO_CONSUMER = { models: undefined, listens: undefined };
const NO_WORKER_POOL = {
  agent: undefined,
  model: undefined,
  adapter: undefined,
  variant: undefined,
  metadata: undefined,
  serves: undefined,
  heartbeatAt: undefined,
  drainBy: undefined,
};
const NO_WORKER = { vramGuessed: undefined, slots: undefined, contextLength: undefined, registry: undefined };

/** Adds the `undefined` fields that JSON has dropped, so that every record of a kind has one shape. */
const SHAPES: { [K in RecordKind]: (stored: RecordKinds[K]) => RecordKinds[K] } = {
  // The spec needs nothing: its defaults were stored, and fields that were not given are left out in memory too.
  ask: (stored: AskRecord) => ({ ...NO_ASK, ...stored }),
  job: (stored: JobRecord) => ({ ...FRESH_JOB, ...stored }),
  attempt: (stored: AttemptRecord) => ({ ...NO_ATTEMPT, ...stored }),
  failure: (stored: FailureRecord) => stored,
  brain: (stored: BrainRecord) => stored,
  lease: (stored: LeaseRecord) => ({ ...NO_LEASE, ...stored }),
  model: (stored) => ({ ...NO_MODEL, ...stored }),
  session: (stored) => ({ ...NO_SESSION, ...stored }),
  pool: (stored) => ({ ...NO_POOL, ...stored }),
  worker: (stored) => ({ ...NO_WORKER, ...stored }),
  demand: (stored) => stored,
  limits: (stored) => stored,
  spent: (stored) => stored,
  prices: (stored) => stored,
  route: (stored) => stored,
  batch: (stored) => ({ ...NO_BATCH, ...stored }),
  failed_dependency: (stored) => stored,
  erasure: (stored) => stored,
  wait_state: (stored) => stored,
  schedule: (stored) => ({ ...NO_SCHEDULE, ...stored }),
  module: (stored) => stored,
  governance: (stored) => stored,
  policy: (stored) => stored,
  mcp_pin: (stored) => stored,
  mcp_task: (stored) => stored,
  consumer: (stored) => ({ ...NO_CONSUMER, ...stored }),
  worker_pool: (stored) => ({ ...NO_WORKER_POOL, ...stored }),
};

export function upcast<K extends RecordKind>(kind: K, stored: Stored): RecordKinds[K] {
  const wanted = RECORD_VERSIONS[kind];
  if (wanted === undefined) {
    throw new OrchdError('STORE_TOO_NEW', `a record of kind "${kind}" is not known to this version of orchd`);
  }
  if (!Number.isInteger(stored.v))
    throw new OrchdError('STORE_CORRUPT', `a ${kind} record has no known version (${stored.v})`);
  let record = stored;
  while (record.v < wanted) {
    const step = UPCASTERS[kind]?.[record.v];
    if (!step) throw new OrchdError('STORE_CORRUPT', `a ${kind} record has no known version (${record.v})`);
    record = step(record);
  }
  if (record.v !== wanted) {
    throw new OrchdError(
      'STORE_TOO_NEW',
      `a ${kind} record has version ${record.v}; this orchd knows ${wanted}`,
    );
  }
  return SHAPES[kind](record as never);
}
