/**
 * Runs the jobs of a consumer as commands. A keeper runs them, which outlives this process (docs/decisions/0025): a
 * successor finds what runs and what has ended by its token, and a token is run at most once.
 */
import type { CommandBackend } from '../../backends/local/command/command.ts';
import type { Ended, HeldJob } from '../../consumer/held-job.ts';
import type { Claimed, ResumedJob, Runner } from '../../consumer/runner.ts';
import type {
  ExecutionEvent,
  ExecutionOutcome,
  FollowEnd,
  Offer,
  OfferReply,
} from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import type { AskRecord } from '../../model/records.ts';
import { traceIn } from '../../model/trace.ts';
import type { Commander } from '../../model/worker-wire.ts';
import type { StateFolder } from './state-folder.ts';

/** After a command could not be begun, or its output not be read. */
const AGAIN_MS = 500;
const TRIES = 10;

type Backend = Pick<CommandBackend, 'offer' | 'follow' | 'kill' | 'ack' | 'erase' | 'inspect' | 'info'>;

export interface CommandRunnerParts {
  readonly env: Pick<Env, 'timers' | 'clock'>;
  readonly backend: Backend;
  readonly folder: StateFolder;
  readonly onProblem: (message: string) => void;
}

export class CommandRunner implements Runner {
  readonly #parts: CommandRunnerParts;
  readonly #held = new Set<string>();
  /** The GPUs of the jobs that are being begun, by token. */
  readonly #leases = new Map<string, NonNullable<Claimed['lease']>>();
  /** Those that belong to a session, or may: nobody tells a consumer when that is deleted. */
  readonly #inSession = new Set<string>();

  constructor(parts: CommandRunnerParts) {
    this.#parts = parts;
  }

  get #who(): Commander {
    return { owner: this.#parts.folder.state.owner, epoch: 1 };
  }

  /** The jobs that an earlier process held and has begun. Those it has not begun belong to its last claim, which is repeated. */
  async resumed(): Promise<readonly ResumedJob[]> {
    const { backend, folder } = this.#parts;
    const { known } = await backend.inspect(folder.state.held, this.#who);
    const tokens = folder.state.held.filter((token) => known.has(token));
    for (const token of tokens) {
      this.#held.add(token);
      this.#inSession.add(token);
    }
    return tokens.map((token) => ({ token, run: (held) => this.#endOf(held, this.#who) }));
  }

  async claiming(claim: number): Promise<void> {
    await this.#parts.folder.save({ claim, held: [...this.#held] });
  }

  async claimed(tokens: readonly string[]): Promise<void> {
    if (tokens.length === 0) return;
    for (const token of tokens) this.#held.add(token);
    await this.#parts.folder.save({ held: [...this.#held] });
  }

  /** What the command of a job finds in its environment: the GPU that it may use. */
  environmentOf(token: string): Record<string, string> {
    const lease = this.#leases.get(token);
    if (!lease) return {};
    const gpu = String(lease.gpu_index);
    return { CUDA_VISIBLE_DEVICES: gpu, ORCHD_GPU_INDEX: gpu, ORCHD_GPU_MEMORY_MB: String(lease.memory_mb) };
  }

  async begin(job: Claimed, held: HeldJob): Promise<{ readonly ended: Promise<Ended> }> {
    const { backend, env } = this.#parts;
    const who = this.#who;
    if (job.lease) this.#leases.set(job.token, job.lease);
    if (job.session_id !== undefined) this.#inSession.add(job.token);
    const reply = await this.#offered(offerOf(job, who, backend.info.registry, env.clock.now()));
    this.#leases.delete(job.token);
    if (!reply) return { ended: Promise.resolve(unknownEnd('nobody can say whether it was begun')) };
    if (reply.is === 'accepted') return { ended: this.#endOf(held, who) };
    if (reply.is === 'refused') {
      const { code, message, retriable } = reply.error;
      return { ended: Promise.resolve({ ok: false, error: { code, message, retriable } }) };
    }
    // A command that was lost to this consumer has not ended yet, and still has its slot.
    await pause(env.timers, AGAIN_MS);
    return { ended: Promise.resolve({ returned: true }) };
  }

  /** Undefined where the folder of the commands fails again and again. The same token is begun once at most. */
  async #offered(offer: Offer): Promise<OfferReply | undefined> {
    const { backend, env, onProblem } = this.#parts;
    for (let tries = 0; tries < TRIES; tries++) {
      if (tries > 0) await pause(env.timers, AGAIN_MS);
      try {
        return await backend.offer(offer);
      } catch (error) {
        onProblem(`the command of ${offer.token} could not be begun: ${error}`);
      }
    }
    return undefined;
  }

  settled(token: string): void {
    const { backend } = this.#parts;
    this.#held.delete(token);
    const over = this.#inSession.delete(token)
      ? backend.erase(token, this.#who)
      : backend.ack(token, this.#who);
    // Without it the output stays on the disk for longer than it has to.
    void over.catch(() => undefined);
  }

  async #endOf(held: HeldJob, who: Commander): Promise<Ended> {
    const { backend, onProblem } = this.#parts;
    const kill = (): void =>
      void backend
        .kill(held.token, who)
        .catch((error: unknown) => onProblem(`the command of ${held.token} could not be ended: ${error}`));
    held.signal.addEventListener('abort', kill);
    if (held.signal.aborted) kill();
    const end = await this.#follow(held, who);
    held.signal.removeEventListener('abort', kill);
    if (end.is === 'ended') return reportOf(end.outcome, held);
    const why = (end.is === 'forgotten' ? end.why : undefined) ?? 'its end cannot be read';
    return unknownEnd(why);
  }

  async #follow(held: HeldJob, who: Commander): Promise<FollowEnd> {
    const { backend, env, onProblem } = this.#parts;
    let last = 0;
    const on = ({ n, type, data }: ExecutionEvent): void => {
      last = n;
      if (type === 'token') held.emit((data as { t: string }).t);
    };
    let end: FollowEnd = { is: 'lost' };
    for (let tries = 0; tries < TRIES && end.is === 'lost'; tries++) {
      if (tries > 0) await pause(env.timers, AGAIN_MS);
      try {
        end = await backend.follow(held.token, last, on, who);
      } catch (error) {
        onProblem(`the output of ${held.token} could not be read: ${error}`);
      }
    }
    return end;
  }
}

/** It may have done its work: `on_unknown` of the job decides whether it runs again. */
const unknownEnd = (message: string): Ended => ({ unknown: true, message });

function offerOf(job: Claimed, { owner, epoch }: Commander, registry: string, now: number): Offer {
  const { token, job_id: id, tenant, attempt, type, model, payload, traceparent } = job;
  const ask = {
    v: 2,
    id,
    tenant,
    n: 0,
    createdAt: now,
    submittedBy: '',
    spec: { type, ...(model !== undefined && { model }) },
    payload: '',
    payloadBytes: 0,
    trace: traceIn(traceparent),
  } as Partial<AskRecord> as AskRecord;
  return { token, owner, epoch, ask, payloadText: JSON.stringify(payload), attempt, registry };
}

function reportOf(outcome: ExecutionOutcome, { signal, why }: HeldJob): Ended {
  if (outcome.ok === true) return { ok: true, result: JSON.parse(outcome.resultText) as unknown };
  if (outcome.ok === false) {
    const { code, message, retriable, reason } = outcome.error;
    const { retryAfterMs } = outcome;
    return {
      ok: false,
      error: { code: code === 'EXECUTION_FAILED' ? (reason ?? code) : code, message, retriable },
      ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }),
    };
  }
  if (signal.aborted && why !== 'shutdown') return { cancelled: true };
  return { ok: false, error: { message: 'the command was ended with its consumer', retriable: true } };
}
