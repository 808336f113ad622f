/** The requests of consumers. Each is answered once what it has changed is durable. */
import { type ConsumerResult, isHolder } from '../../core/attempts/claims.ts';
import type { Engine } from '../../core/engine/engine.ts';
import type { Store } from '../../core/ports/store.ts';
import type { JobEntry } from '../../core/state/job-entry.ts';
import { attemptLeaseId } from '../../core/state/leases.ts';
import { crashpoint } from '../../kit/crashpoint.ts';
import type { Random, Timers } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { type ConsumerDeclaration, type ConsumerRecord, consumerId } from '../../model/consumer-record.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import type {
  ClaimBody,
  ConsumerBody,
  ConsumerEvents,
  ConsumerRegistered,
  ConsumerResults,
  ConsumerView,
  EventsTaken,
  HeldAnswer,
  HeldBody,
  ResultsRecorded,
} from '../../model/http/consumers.ts';
import { type AttemptRecord, jobOfToken } from '../../model/records.ts';
import type { Bodies } from '../bodies.ts';
import type { BrainClock } from '../brain-clock.ts';
import { Commands } from '../command-order.ts';
import type { Loop } from '../loop.ts';
import type { Outcomes } from '../outcomes.ts';
import { whenDurable } from '../when-durable.ts';
import { claimedJobText } from './claimed-job.ts';
import type { EventLog } from './event-log.ts';
import type { Hints } from './hints.ts';
import { outcomeOf, type ReportedResult } from './reported.ts';

const DEFAULT_TTL_MS = 15_000;
/** A consumer sends this many heartbeats in the time after which it would fall silent. */
const HEARTBEATS_PER_TTL = 3;
const DEVICE_AGAIN_MS = 1000;
const ID_BYTES = 16;
const NAME_BYTES = 6;

export interface ConsumersParts {
  readonly loop: Loop;
  readonly engine: Engine;
  readonly store: Pick<Store, 'history'>;
  readonly bodies: Bodies;
  readonly clock: Pick<BrainClock, 'now'>;
  readonly random: Random;
  readonly timers: Timers;
  readonly hints: Hints;
  readonly events: EventLog;
  readonly outcomes: Outcomes;
  /** Whether this brain still holds its store. */
  readonly mayAct: () => boolean;
}

export class Consumers extends Commands {
  readonly #parts: ConsumersParts;

  constructor(parts: ConsumersParts) {
    super(parts.loop, parts.engine);
    this.#parts = parts;
  }

  async register(body: ConsumerBody): Promise<ConsumerRegistered> {
    const { random, hints } = this.#parts;
    const declared: ConsumerDeclaration = {
      pool: body.pool,
      name: body.name ?? random.hex(NAME_BYTES),
      token: body.consumer_id ?? random.hex(ID_BYTES),
      slots: body.slots,
      types: body.types,
      models: body.models,
      labels: body.labels ?? {},
      paid: body.paid ?? false,
      listens: body.listens,
      gpuMemoryMb: body.gpu_memory_mb,
      gpuPool: body.gpu_pool,
      ttlMs: body.lease_ttl_ms ?? DEFAULT_TTL_MS,
    };
    const { token, pool, name, ttlMs } = await this.order({ type: 'consumer', declared });
    const stream = hints.placeOf(pool);
    return {
      consumer_id: token,
      pool,
      name,
      lease_ttl_ms: ttlMs,
      heartbeat_ms: Math.floor(ttlMs / HEARTBEATS_PER_TTL),
      ...(stream && { stream }),
    };
  }

  /** The answer as JSON text. `onDisconnect`: the caller is gone, and takes nothing any more. */
  async claim(consumer: string, body: ClaimBody, onDisconnect: (run: () => void) => void): Promise<string> {
    const since = this.engine.state.seq;
    const first = await this.#claim(consumer, body, body.tokens);
    const isOver = first.attempts.length > 0 || first.isDraining || body.tokens || !body.wait_ms;
    if (isOver) return this.#claimAnswer(consumer, first.attempts, first.isDraining);
    if (first.lacksDevice) return this.#claimLater(consumer, body);
    const { claim, max: atMost, wait_ms: waitMs = 0 } = body;
    const { pool } = this.#known(consumer);
    const waiting = this.#parts.hints.wait({ pool, consumer, claim, atMost, waitMs, since });
    onDisconnect(() => waiting.stop());
    const claimed = (await waiting.claimed) ?? first;
    if (claimed instanceof OrchdError) throw claimed;
    return this.#claimAnswer(consumer, claimed.attempts, claimed.isDraining);
  }

  /** No device is free for the jobs that wait: nobody tells when one is, so the consumer is not answered at once. */
  async #claimLater(consumer: string, body: ClaimBody): Promise<string> {
    await pause(this.#parts.timers, Math.min(body.wait_ms ?? 0, DEVICE_AGAIN_MS));
    const { attempts, isDraining } = await this.#claim(consumer, body, undefined);
    return this.#claimAnswer(consumer, attempts, isDraining);
  }

  #claim(consumer: string, { claim, max }: ClaimBody, tokens: readonly string[] | undefined) {
    return this.order({ type: 'claim', consumer, claim, atMost: max, tokens });
  }

  async #claimAnswer(consumer: string, attempts: readonly JobEntry[], isDraining: boolean): Promise<string> {
    const texts = await Promise.all(attempts.map((entry) => this.#claimedText(consumer, entry)));
    const jobs = texts.filter((text) => text !== undefined);
    crashpoint('claim:before-answer');
    return `{"jobs":[${jobs.join(',')}],"drain":${isDraining}}`;
  }

  /** Undefined for a job whose payload cannot be read: it goes back to the queue, or fails if it is damaged. */
  async #claimedText(consumer: string, entry: JobEntry): Promise<string | undefined> {
    const { bodies, clock, events, timers } = this.#parts;
    const { token } = entry;
    try {
      const lease = this.engine.state.leases.get(attemptLeaseId(token))?.record;
      const text = await claimedJobText(entry, bodies, clock.now(), timers, lease);
      if (entry.token === token) events.started(entry);
      return text;
    } catch (thrown) {
      const error = toOrchdError(thrown);
      const outcome = error.retriable
        ? ({ ok: 'returned' } as const)
        : ({ ok: false, error: error.info() } as const);
      await this.order({ type: 'results', consumer, results: [{ token, outcome }] });
      return undefined;
    }
  }

  async heartbeat(consumer: string, { held, claimed }: HeldBody): Promise<HeldAnswer> {
    // A heartbeat may change memory only. No fenced write would then stop a brain that was replaced, so check here.
    if (!this.#parts.mayAct()) throw new OrchdError('FENCED');
    const answer = await this.order({ type: 'held', consumer, held, claimed });
    const events: Record<string, number> = {};
    for (const entry of answer.held) if (entry.open) events[entry.token] = this.#parts.events.taken(entry);
    return {
      lease_ttl_ms: answer.consumer.ttlMs,
      stop: answer.stop.map(({ token, open }) => ({ token, why: open?.kill?.why ?? 'cancel' })),
      lost: [...answer.lost],
      events,
      drain: answer.consumer.state === 'draining',
    };
  }

  /** Only what is durable is told to followers: a consumer knows of an attempt after its claim was answered. */
  async takeEvents(consumer: string, { events }: ConsumerEvents): Promise<EventsTaken> {
    const lost = this.#parts.events.take(this.#known(consumer), events);
    crashpoint('events:before-answer');
    return { lost: [...lost] };
  }

  async results(consumer: string, { results }: ConsumerResults): Promise<ResultsRecorded> {
    const holder = this.#known(consumer);
    const reported = await Promise.all(results.map((result) => this.#reported(holder, result)));
    const answers = await this.order({ type: 'results', consumer, results: reported });
    crashpoint('results:before-answer');
    return {
      results: results.map(({ token }, at) => {
        const answer = answers[at];
        return answer instanceof OrchdError
          ? { token, error: { ...answer.info(), next: answer.next } }
          : { token, recorded: true };
      }),
    };
  }

  /** The body of a result that will be refused is not stored: it would stay behind. */
  async #reported(consumer: ConsumerRecord, result: ReportedResult): Promise<ConsumerResult> {
    const { token } = result;
    const entry = this.engine.state.open.get(token);
    if (!entry?.open) return { token, outcome: undefined, ended: await this.#ended(token) };
    if (!isHolder(entry.open, consumer)) return { token, outcome: undefined };
    return { token, outcome: await outcomeOf(result, entry.ask, this.#parts.outcomes) };
  }

  /** The attempt of a job that has left memory: the consumer may have lost the answer to its result. */
  async #ended(token: string): Promise<AttemptRecord | undefined> {
    const uid = jobOfToken(token);
    if (uid === '' || this.engine.state.jobs.has(uid)) return undefined;
    const n = Number(token.slice(uid.length + 1));
    const job = await this.#parts.store.history.get(uid);
    return job?.attempts.find((attempt) => attempt.n === n);
  }

  async leave(consumer: string): Promise<void> {
    await this.order({ type: 'consumer-left', consumer });
  }

  /** The consumer finishes what it holds, and gets nothing new. */
  async drain(id: string, by: string): Promise<ConsumerView> {
    return this.#view(await this.order({ type: 'drain-consumer', id, by }));
  }

  list(): Promise<readonly ConsumerView[]> {
    const { engine, loop } = this.#parts;
    const views = [...engine.state.consumers.values()].map((record) => this.#view(record));
    return whenDurable({ engine, loop }, views);
  }

  #view({ token: _, v: _v, fence: _f, paid: _p, ...record }: ConsumerRecord): ConsumerView {
    const id = consumerId(record.pool, record.name);
    return {
      id,
      pool: record.pool,
      name: record.name,
      state: record.state,
      slots: record.slots,
      held: this.engine.state.pulled.held(id).size,
      types: record.types,
      ...(record.models && { models: record.models }),
      labels: record.labels,
      ...(record.listens && { listens: record.listens }),
      lease_ttl_ms: record.ttlMs,
      registered_at: record.registeredAt,
      seen_at: record.seenAt,
    };
  }

  #known(token: string): ConsumerRecord {
    const { consumers } = this.engine.state;
    const record = consumers.get(consumers.idOf(token) ?? '');
    if (!record) throw new OrchdError('CONSUMER_GONE');
    return record;
  }
}
