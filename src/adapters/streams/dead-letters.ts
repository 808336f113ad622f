/**
 * Mirrors dead jobs to the stream `:dlq`, in the order of their deaths, for whoever watches streams. The records stay the
 * truth: jobs are listed and redriven from them.
 *
 * D1  The mark in the store moves behind a death only after Redis has answered for it: after a crash in between it is
 *     mirrored again.
 * D2  What is not known from this process is found in the records behind the mark: deaths while no brain ran, while Redis
 *     was away, and beyond MAX_PENDING. Without a mark these are all.
 */
import { type Command, RedisAway, type Reply } from '../../backends/stream/client.ts';
import type { RedisConnection } from '../../backends/stream/connection.ts';
import { DLQ_LENGTH, deadLetter } from '../../backends/stream/entry.ts';
import { codeOf } from '../../backends/stream/server-check.ts';
import { backoffMs } from '../../kit/backoff.ts';
import { cutText } from '../../kit/cut-text.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { describeThrown } from '../../kit/redact.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { JobView } from '../../model/http/jobs.ts';
import type { HandledRange } from '../../model/module-record.ts';
import { DEFAULT_TENANT, uidOf } from '../../model/records.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import { ENTRY_TAG } from './ingested.ts';

/** The name of the mark; no module may have one with a slash. */
const MARK = 'redis/dlq';
const PAGE = 500;
const BATCH = 100;
/** More than the DLQ keeps would be trimmed from it at once. */
const MAX_PENDING = DLQ_LENGTH;
const MAX_ERROR_BYTES = 2048;
const RETRY = { baseDelayMs: 200, maxDelayMs: 10_000, jitter: 0.2 };

interface Death {
  readonly uid: string;
  readonly tenant: string;
  readonly jobId: string;
  /** The admission number, which tells apart those that died in the same millisecond. */
  readonly n: number;
  readonly at: number;
}

export interface DeadLettersParts {
  readonly env: Pick<Env, 'timers' | 'random'>;
  readonly logger: Logger | undefined;
  readonly connection: RedisConnection;
  readonly orchestrator: Pick<Orchestrator, 'ends' | 'reads' | 'moduleMarks' | 'getResult'>;
  /** The tenants that may have jobs, beside the default one. */
  readonly tenants: () => readonly string[];
}

export class DeadLetters extends Service {
  readonly #parts: DeadLettersParts;
  /** In the order of their deaths, by uid and instant. */
  #pending = new Map<string, Death>();
  #isBehind = true;
  #mark: Mark | undefined;
  #wake: () => void = () => undefined;
  #unsubscribe: Cancel = () => undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: DeadLettersParts) {
    super();
    this.#parts = parts;
    parts.connection.onUp(() => this.#wake());
  }

  protected async onStart(): Promise<void> {
    // Subscribes first, and looks for earlier deaths afterwards: none is missed in between.
    this.#unsubscribe = this.#parts.orchestrator.ends.subscribe(({ uid, state, endedAt }) => {
      if (state === 'dead') this.#died(uid, endedAt);
    });
    this.stopSignal.addEventListener('abort', () => this.#wake());
    this.#running = this.#run();
  }

  protected async onStop(): Promise<void> {
    this.#unsubscribe();
    await this.#running;
  }

  /** Called within each commit. */
  #died(uid: string, at: number): void {
    const n = this.#parts.orchestrator.reads.admission(uid);
    const [first = '', second] = uid.split('~');
    const [tenant, jobId] = second === undefined ? [DEFAULT_TENANT, first] : [first, second];
    if (n === undefined || this.#pending.size >= MAX_PENDING) this.#isBehind = true;
    else this.#pending.set(`${uid}@${at}`, { uid, tenant, jobId, n, at });
    this.#wake();
  }

  async #run(): Promise<void> {
    const { env, logger } = this.#parts;
    let failures = 0;
    while (!this.stopSignal.aborted) {
      try {
        await this.#step();
        failures = 0;
      } catch (error) {
        if (this.stopSignal.aborted) return;
        if (failures++ === 0 && !(error instanceof RedisAway))
          logger?.warn('dead jobs could not be mirrored to Redis; this is tried again', {
            reason: describeThrown(error),
          });
        await pause(env.timers, backoffMs(RETRY, failures, env.random.next()), this.stopSignal);
      }
    }
  }

  async #step(): Promise<void> {
    if (!this.#parts.connection.isUp || (this.#pending.size === 0 && !this.#isBehind)) return this.#woken();
    this.#mark ??= markOf(await this.#parts.orchestrator.moduleMarks.read(MARK));
    if (this.#isBehind) await this.#catchUp(this.#mark);
    else await this.#mirror(this.#mark);
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.stopSignal.aborted) resolve();
    });
  }

  /** D2: the latest that the DLQ has room for. */
  async #catchUp(mark: Mark): Promise<void> {
    this.#isBehind = false;
    try {
      const found: Death[] = [];
      for (const tenant of new Set([DEFAULT_TENANT, ...this.#parts.tenants()]))
        for await (const death of this.#deadOf(tenant, mark)) {
          found.push(death);
          if (found.length > 2 * MAX_PENDING) found.sort(byDeath).splice(0, MAX_PENDING);
        }
      // Those that died meanwhile stand in both.
      const all = [...found, ...this.#pending.values()].sort(byDeath).slice(-MAX_PENDING);
      this.#pending = new Map(all.map((death) => [`${death.uid}@${death.at}`, death]));
    } catch (error) {
      this.#isBehind = true;
      throw error;
    }
  }

  async *#deadOf(tenant: string, mark: Mark): AsyncGenerator<Death> {
    let after = 0;
    for (;;) {
      if (this.stopSignal.aborted) return;
      const query = { tenant, states: ['dead'], after, order: 'oldest first', limit: PAGE } as const;
      const page = await this.#parts.orchestrator.reads.find(query);
      for (const { ask, job } of page) {
        const death = { uid: uidOf(tenant, ask.id), tenant, jobId: ask.id, n: ask.n, at: job.endedAt ?? 0 };
        if (!mark.has(death)) yield death;
      }
      const last = page.at(-1);
      if (!last || page.length < PAGE) return;
      after = last.ask.n;
    }
  }

  async #mirror(mark: Mark): Promise<void> {
    const batch = [...this.#pending].slice(0, BATCH);
    const letters: Command[] = [];
    for (const [, death] of batch) {
      const job = await this.#viewOf(death);
      // The retention of the history has ended meanwhile.
      if (job) letters.push(letterOf(death, job));
    }
    const replies = letters.length > 0 ? await this.#parts.connection.pipeline(letters) : [];
    const refusal = replies.find((reply: Reply) => codeOf(reply) !== undefined);
    // What was taken before is mirrored a second time.
    if (refusal instanceof Error) throw refusal;
    for (const [, death] of batch) mark.add(death);
    await this.#parts.orchestrator.moduleMarks.write(MARK, mark.ranges, 'redis');
    for (const [key] of batch) this.#pending.delete(key);
  }

  async #viewOf({ jobId, tenant }: Death): Promise<JobView | undefined> {
    try {
      return await this.#parts.orchestrator.getResult(jobId, tenant);
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }
}

/** By admission where they died in the same millisecond. */
const byDeath = (a: Death, b: Death): number => a.at - b.at || a.n - b.n;

function letterOf({ tenant, jobId }: Death, job: JobView): Command {
  const { error, session_id: session, tags, type, reason = 'failed', attempts } = job;
  // A message may quote the conversation, whose erasure does not reach Redis.
  const said = error && (session === undefined ? `${error.code}: ${error.message}` : error.code);
  return deadLetter([
    ['job_id', jobId],
    ['origin_id', tags?.[ENTRY_TAG] ?? jobId],
    ['attempts', String(attempts.at(-1)?.attempt ?? 0)],
    ['last_error', cutText(said ?? reason, MAX_ERROR_BYTES)],
    ['reason', reason],
    ['type', type],
    ['tenant', tenant],
  ]);
}

/**
 * Which deaths were mirrored: all before an instant, and of those in that millisecond the ones with these admission
 * numbers. It is kept in the form of the marks of modules: the instant first, and then the numbers.
 */
interface Mark {
  readonly ranges: readonly HandledRange[];
  has(death: Death): boolean;
  add(death: Death): void;
}

function markOf(written: readonly HandledRange[]): Mark {
  let at = written[0]?.[1] ?? -1;
  const numbers = new Set(written.slice(1).map(([n]) => n));
  return {
    get ranges(): readonly HandledRange[] {
      return [[0, at], ...[...numbers].sort((a, b) => a - b).map((n) => [n, n] as const)];
    },
    has: (death) => death.at < at || (death.at === at && numbers.has(death.n)),
    add: (death) => {
      if (death.at > at) {
        at = death.at;
        numbers.clear();
      }
      // One that died earlier comes late only where the clock was set back.
      if (death.at === at) numbers.add(death.n);
    },
  };
}
