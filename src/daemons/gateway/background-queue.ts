/**
 * The gateway's own queue, for work that may wait: it takes a seat when there is room, nobody has a reservation and the
 * seat does not rest. What it knows of its jobs is the durable state (KeptState), so a job is begun at most once for each
 * attempt, also over a restart. A job gets another attempt only after it was ended early for an immediate request, or
 * the provider has turned it away.
 */
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { QUEUE_OWNER, type QueueJob, type QueueSubmit } from '../../model/gateway-wire.ts';
import type { WorkerOutcome } from '../../model/worker-wire.ts';
import type { Execution } from '../execution/execution.ts';
import type { Executions } from '../execution/executions.ts';
import { readInferenceRequest } from '../execution/inference-request.ts';
import type { KeptMemory } from '../execution/kept-memory.ts';
import type { QueuedJob } from '../execution/kept-records.ts';
import { bodyOf, callRecord, modelOf } from './request-body.ts';
import type { Seats } from './seats.ts';

export interface QueueLimits {
  /** Jobs that wait or run, and the bytes of their payloads. */
  readonly maxJobs: number;
  readonly maxBytes: number;
  /** Jobs that have ended: their number, and how long they are kept. */
  readonly maxEnded: number;
  readonly maxEndedMs: number;
}

export const QUEUE_LIMITS: QueueLimits = {
  maxJobs: 1000,
  maxBytes: 64 * 2 ** 20,
  maxEnded: 1000,
  maxEndedMs: 24 * 3_600_000,
};

export interface BackgroundQueueOptions {
  readonly env: Env;
  readonly kept: KeptMemory;
  readonly seats: Seats;
  readonly executions: () => Executions;
  /** Called when the number of waiting jobs has changed. */
  readonly onChange: () => void;
  readonly limits?: Partial<QueueLimits> | undefined;
}

const WHO = { owner: QUEUE_OWNER, epoch: 0 };
const CANCELLED: WorkerOutcome = { ok: 'cancelled' };
/** Nothing is begun for so long after the disk was full. */
const PAUSE_MS = 1000;
const FULL_RETRY_MS = 1000;

const tokenOf = ({ id, attempts }: Pick<QueuedJob, 'id' | 'attempts'>): string => `${id}:${attempts}`;

export class BackgroundQueue {
  readonly #options: BackgroundQueueOptions;
  readonly #limits: QueueLimits;
  /** Jobs about which a record is being written: nothing else is begun with them. */
  readonly #changing = new Set<string>();
  /** The bytes of the payloads, by job. */
  readonly #bytes = new Map<string, number>();
  #endPause: Cancel | undefined;

  constructor(options: BackgroundQueueOptions) {
    this.#options = options;
    this.#limits = { ...QUEUE_LIMITS, ...options.limits };
    for (const { id, body } of this.#jobs) if (body) this.#bytes.set(id, JSON.stringify(body).length);
  }

  get #jobs(): Iterable<QueuedJob> {
    return this.#options.kept.state.jobs.values();
  }

  /** Whether a job of the queue waits or runs. */
  get isWorking(): boolean {
    return [...this.#jobs].some(({ state }) => state !== 'ended');
  }

  get hasResults(): boolean {
    return [...this.#jobs].some(({ state }) => state === 'ended');
  }

  /** The number of jobs that wait, by seat. */
  get queued(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { seat, state } of this.#jobs)
      if (state === 'queued') counts.set(seat, (counts.get(seat) ?? 0) + 1);
    return counts;
  }

  /** Settles when the job is durable. The same id again answers with the first job. */
  async submit({ backend, payload, job_id, thread_id }: QueueSubmit): Promise<QueueJob> {
    const { env, kept, seats, onChange } = this.#options;
    const id = job_id ?? env.random.hex(12);
    if (kept.state.jobs.has(id)) return this.view(id);
    const seat = seats.get(backend);
    const body = bodyOf({ payload, jobId: id, threadId: thread_id });
    readInferenceRequest(body, 'any');
    modelOf(seat.order, body.model);
    if (this.#changing.has(id)) throw new OrchdError('SERVER_BUSY', 'the same job is being submitted');
    this.#takeRoom(id, JSON.stringify(body).length);
    this.#changing.add(id);
    try {
      const at = env.clock.now();
      await kept.write({ is: 'queued', job: { id, seat: backend, at, state: 'queued', attempts: 0, body } });
    } catch (error) {
      this.#bytes.delete(id);
      throw error;
    } finally {
      this.#changing.delete(id);
    }
    onChange();
    this.pump();
    return this.view(id);
  }

  view(id: string): QueueJob {
    const { seat, state, attempts, outcome, usage } = this.#get(id);
    return {
      job_id: id,
      backend: seat,
      state,
      attempts,
      ...(outcome && { outcome }),
      ...(usage && { usage }),
    };
  }

  async cancel(id: string): Promise<QueueJob> {
    const { kept, env, onChange } = this.#options;
    const job = this.#get(id);
    const execution = this.#executionOf(job);
    const isPreempted = job.state === 'running' && job.preempted !== undefined;
    if (isPreempted || (job.state === 'queued' && !execution)) {
      this.#changing.add(id);
      try {
        await kept.write({ is: 'removed', id, outcome: CANCELLED, at: env.clock.now() });
        this.#bytes.delete(id);
      } finally {
        this.#changing.delete(id);
      }
      onChange();
    }
    execution?.cancel();
    return this.view(id);
  }

  /** Begins the jobs for which there is room. */
  pump(): void {
    const { seats, env } = this.#options;
    if (this.#endPause) return;
    const full = new Set<string>();
    for (const job of [...this.#jobs]) {
      if (job.state !== 'queued' || full.has(job.seat) || this.#changing.has(job.id)) continue;
      const seat = seats.find(job.seat);
      if (!seat || seats.verdict(seat, 'queue', env.clock.monotonic()).is === 'busy') full.add(job.seat);
      else void this.#begin(job);
    }
  }

  /** Ends a job that this queue runs on the seat, for an immediate request: it is the next one of this queue then. */
  async preempt(seat: string): Promise<void> {
    const { seats, kept } = this.#options;
    const running = [...seats.runningOn(seat)].filter(({ owner }) => owner === QUEUE_OWNER);
    const execution = running.find(({ jobId, signal }) => !signal.aborted && !this.#changing.has(jobId));
    if (!execution) return;
    const { jobId: id, token } = execution;
    const attempt = Number(token.slice(token.lastIndexOf(':') + 1));
    this.#changing.add(id);
    try {
      await kept.write({ is: 'preempted', id, attempt });
      execution.cancel();
    } catch {
      // The disk is full: the job goes on.
    } finally {
      this.#changing.delete(id);
    }
  }

  /** An execution of this queue runs no longer. Its outcome, if it has one, is with the job already. */
  ended({ token, jobId, outcome }: Execution): void {
    const { kept } = this.#options;
    if (outcome) kept.memory.acknowledge(QUEUE_OWNER, token);
    if (kept.state.jobs.get(jobId)?.state === 'ended') this.#bytes.delete(jobId);
    this.sweep();
  }

  /** Forgets ended jobs that are too many or too old. */
  sweep(): void {
    const { env, kept } = this.#options;
    const { maxEnded, maxEndedMs } = this.#limits;
    const ended = [...this.#jobs].filter(({ state }) => state === 'ended');
    // A job that was put back, or waited for long, has an early place and a late end.
    ended.sort((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0));
    const oldest = env.clock.now() - maxEndedMs;
    ended.forEach(({ id, endedAt = 0 }, i) => {
      if (ended.length - i <= maxEnded && endedAt > oldest) return;
      kept.write({ is: 'removed', id }).catch(() => undefined);
    });
  }

  stop(): void {
    this.#endPause?.();
    this.#endPause = () => undefined;
  }

  #get(id: string): QueuedJob {
    const job = this.#options.kept.state.jobs.get(id);
    if (job) return job;
    throw new OrchdError('NOT_FOUND', 'there is no job with this id in the queue of this gateway');
  }

  #executionOf(job: QueuedJob): Execution | undefined {
    const { seats } = this.#options;
    return [...seats.runningOn(job.seat)].find(
      ({ owner, jobId }) => owner === QUEUE_OWNER && jobId === job.id,
    );
  }

  #takeRoom(id: string, bytes: number): void {
    const { maxJobs, maxBytes } = this.#limits;
    const used = this.#bytes.values().reduce((sum, each) => sum + each, 0);
    if (this.#bytes.size >= maxJobs || used + bytes > maxBytes) {
      throw new OrchdError('QUEUE_FULL', undefined, { retryAfterMs: FULL_RETRY_MS });
    }
    this.#bytes.set(id, bytes);
  }

  async #begin(job: QueuedJob): Promise<void> {
    const { seats, kept, executions } = this.#options;
    const { id, body } = job;
    const token = tokenOf({ id, attempts: job.attempts + 1 });
    this.#changing.add(id);
    try {
      const seat = seats.get(job.seat).order;
      const { owner } = WHO;
      const timeoutMs = seats.order?.timeout_ms ?? 1;
      if (!body) throw new OrchdError('INTERNAL', 'the payload of the job is lost');
      const call = callRecord({ seat, owner, token, model: body.model, timeoutMs });
      const request = readInferenceRequest(body, 'any');
      executions().begin({ who: WHO, token, registry: undefined, hash: undefined, request, call });
      await kept.memory.pending(owner, token);
    } catch (error) {
      await this.#notBegun(id, error);
    } finally {
      this.#changing.delete(id);
    }
  }

  /** A job that cannot be begun now waits; one that never can has failed. */
  async #notBegun(id: string, error: unknown): Promise<void> {
    const { env, kept } = this.#options;
    const isBusy = error instanceof OrchdError && error.code === 'WORKER_BUSY';
    if (!isBusy) {
      const { code, message, retriable } =
        error instanceof OrchdError ? error : new OrchdError('EXECUTION_FAILED');
      const outcome: WorkerOutcome = { ok: false, error: { code, message, retriable } };
      await kept.write({ is: 'removed', id, outcome, at: env.clock.now() }).catch(() => undefined);
      this.#bytes.delete(id);
    }
    this.#endPause ??= env.timers.after(PAUSE_MS, () => {
      this.#endPause = undefined;
      this.pump();
    });
  }
}
