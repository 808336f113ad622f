/** A consumer whose jobs are run by a function of this program. Needs Node: its heartbeats have a thread of their own. */
import { realEnv } from '../kit/env/real.ts';
import type { ConsumerBody } from '../model/http/consumers.ts';
import { ConsumerLoop } from './consumer-loop.ts';
import type { Ended, HeldJob } from './held-job.ts';
import type { Claimed } from './runner.ts';

const MAX_MESSAGE_CHARS = 2000;
const MAX_CODE_CHARS = 64;
const DEFAULTS = { url: 'http://127.0.0.1:8080', waitMs: 20_000, graceMs: 30_000 } as const;

export interface JobContext {
  /** The job as it was claimed: token, id, type, model, tags and so on. */
  readonly job: Omit<Claimed, 'payload'>;
  /** Aborted when the job is to end: then what the handler returns is not used. */
  readonly signal: AbortSignal;
  /** Passes on a piece of the answer to those who follow the job. */
  emit(text: string): void;
  metrics(data: unknown): void;
  /** The tokens that the job has used so far, reported with its end. */
  used(usage: NonNullable<Extract<Ended, { ok: true }>['usage']>): void;
}

/**
 * Returns the result of the job, or throws. An error is tried again unless its `retriable` is false; `code` and
 * `retryAfterMs` of it are passed on.
 */
export type Handler = (payload: never, context: JobContext) => unknown;

export interface ConsumerOptions {
  /** URL of the brain; `http://127.0.0.1:8080` by default. */
  readonly url?: string | undefined;
  /** ORCHD_TOKEN by default. */
  readonly token?: string | undefined;
  readonly pool: string;
  readonly types: readonly string[];
  readonly slots: number;
  readonly handler: Handler;
  readonly name?: string | undefined;
  readonly models?: readonly string[] | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** A second run would cost money: jobs of unknown outcome are held by default. */
  readonly paid?: boolean | undefined;
  readonly leaseTtlMs?: number | undefined;
  /** The memory of a GPU that it needs for each job; `job.lease` then says which GPU a job has. */
  readonly gpuMemoryMb?: number | undefined;
  /** The pool of this machine, whose GPUs it can use. */
  readonly gpuPool?: string | undefined;
  /** Where it hears of jobs without asking, if the brain uses Redis; needs the package `redis`. */
  readonly redisUrl?: string | undefined;
  /** How long a claim waits for work. */
  readonly waitMs?: number | undefined;
  /** How long running jobs may go on after a stop. */
  readonly graceMs?: number | undefined;
  readonly onProblem?: ((message: string) => void) | undefined;
}

export class Consumer {
  readonly #loop: ConsumerLoop;

  constructor(options: ConsumerOptions) {
    const { url = DEFAULTS.url, token = process.env['ORCHD_TOKEN'], handler } = options;
    this.#loop = new ConsumerLoop({
      env: realEnv(),
      address: { url, token },
      declared: declaredOf(options),
      waitMs: options.waitMs ?? DEFAULTS.waitMs,
      graceMs: options.graceMs ?? DEFAULTS.graceMs,
      redisUrl: options.redisUrl,
      onProblem: options.onProblem ?? ((message) => console.warn(`orchd consumer: ${message}`)),
      runner: { begin: async (job, held) => ({ ended: endOf(handler, job, held) }) },
    });
  }

  /** Resolves when the consumer is registered; rejects if the brain refuses it. */
  start(): Promise<void> {
    return this.#loop.start();
  }

  /** Finishes what runs, gives back what was not begun, and leaves. */
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Works until SIGTERM or SIGINT, or until an operator drains this consumer. */
  async run(): Promise<void> {
    const stop = (): void => void this.stop();
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, stop);
    try {
      await this.start();
      await this.#loop.over;
    } finally {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, stop);
    }
  }
}

function declaredOf(options: ConsumerOptions): Omit<ConsumerBody, 'consumer_id'> {
  const { pool, types, slots, name, models, labels, paid, leaseTtlMs, gpuMemoryMb, gpuPool } = options;
  return {
    pool,
    types: [...types],
    slots,
    ...(name !== undefined && { name }),
    ...(models && { models: [...models] }),
    ...(labels && { labels: { ...labels } }),
    ...(paid !== undefined && { paid }),
    ...(leaseTtlMs !== undefined && { lease_ttl_ms: leaseTtlMs }),
    ...(gpuMemoryMb !== undefined && { gpu_memory_mb: gpuMemoryMb }),
    ...(gpuPool !== undefined && { gpu_pool: gpuPool }),
  };
}

async function endOf(handler: Handler, { payload, ...job }: Claimed, held: HeldJob): Promise<Ended> {
  let counted = {};
  const context: JobContext = {
    job,
    signal: held.signal,
    emit: (text) => held.emit(text),
    metrics: (data) => held.metrics(data),
    used: (usage) => {
      counted = { usage };
    },
  };
  return { ...(await outcomeOf(handler, payload, context, held)), ...counted } as Ended;
}

async function outcomeOf(
  handler: Handler,
  payload: unknown,
  context: JobContext,
  held: HeldJob,
): Promise<Ended> {
  try {
    const result = await handler(payload as never, context);
    if (!held.signal.aborted) return { ok: true, result: jsonOf(result) };
  } catch (error) {
    if (!held.signal.aborted) return failureOf(error);
  }
  if (held.why !== 'shutdown') return { cancelled: true };
  return { ok: false, error: { message: 'the consumer was stopped', retriable: true } };
}

/** Throws for what JSON cannot hold, here and not in the request that has other results too. */
function jsonOf(result: unknown): unknown {
  try {
    return JSON.stringify(result) === undefined ? null : result;
  } catch (error) {
    const message = `the result is no JSON: ${error instanceof Error ? error.message : error}`;
    throw Object.assign(new Error(message), { retriable: false });
  }
}

function failureOf(thrown: unknown): Ended {
  const { message, code, retriable, retryAfterMs } = Object(thrown) as Record<string, unknown>;
  return {
    ok: false,
    error: {
      message: String(message ?? thrown).slice(0, MAX_MESSAGE_CHARS),
      retriable: retriable !== false,
      ...(typeof code === 'string' && { code: code.slice(0, MAX_CODE_CHARS) }),
    },
    ...(typeof retryAfterMs === 'number' && { retry_after_ms: Math.max(0, Math.round(retryAfterMs)) }),
  };
}
