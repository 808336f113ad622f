/**
 * Takes jobs and events from `:ingest_events` and orders from `:control`, while this brain leads.
 *
 * I1  An entry is acknowledged and deleted only after what it asks for is durable, or a note in the DLQ says why not.
 * I2  An entry that was read before, by this brain or another one, is read again until it is finished: its id is the job
 *     id, so that the job is the same one.
 * I3  An entry is refused only for what it says. Where the brain cannot take it, because it does not lead any more say, it
 *     stays for the brain that can.
 */
import { type Command, RedisAway, type Reply, transaction } from '../../backends/stream/client.ts';
import type { RedisConnection } from '../../backends/stream/connection.ts';
import { type Entry, endingOf, entriesIn, unusable } from '../../backends/stream/entry.ts';
import { BRAIN, CONTROL, INGEST, type StreamPlace } from '../../backends/stream/names.ts';
import { codeOf } from '../../backends/stream/server-check.ts';
import type { EventRule } from '../../config/redis.ts';
import { backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { describeThrown } from '../../kit/redact.ts';
import { Service } from '../../kit/service.ts';
import { type ErrorCode, OrchdError, toOrchdError } from '../../model/errors.ts';
import type { Orchestrator } from '../../runtime/orchestrator.ts';
import type { Caller } from '../../runtime/prepare.ts';
import type { TokenEntry } from '../../wire/tokens.ts';
import { TRY_LATER } from '../modules/scan.ts';
import { type Ingested, requestIn } from './ingested.ts';
import { carryOut, type Ordered } from './orders.ts';
import { reclaim } from './reclaim.ts';

const PAGE = 50;
const BLOCK_MS = 5000;
const RETRY = { baseDelayMs: 100, maxDelayMs: 2000, jitter: 0.2 };
const CALLER: Caller = { principal: 'redis', submittedBy: 'redis', mustBeRunnable: true };

/** I3. */
const NOT_NOW: ReadonlySet<ErrorCode> = new Set([
  ...TRY_LATER,
  'FENCED',
  'NO_LEADER',
  'STORE_FAILED',
  'STORE_CORRUPT',
  'STORE_UNWRITABLE',
]);

/** Within `claimIdleMs`, entries that others have read and not finished are looked for so often. */
const LOOKS_PER_IDLE = 2;

/** Entries that were read before and are not finished, or new ones. */
type From = '0' | '>';

/** What became of an entry: `later`, it stays and is read again. */
type Outcome = 'done' | 'later' | { readonly refused: string };

export interface InboxParts {
  readonly env: Pick<Env, 'clock' | 'timers' | 'random'>;
  readonly logger: Logger | undefined;
  /** One of its own: it waits for entries, and other commands would wait with it. */
  readonly connection: RedisConnection;
  readonly orchestrator: Pick<Orchestrator, 'submitMany'> & Ordered;
  readonly ingest: boolean;
  readonly control: boolean;
  /** An entry that another name of the group has read so long ago is taken. */
  readonly claimIdleMs: number;
  readonly events: readonly EventRule[];
  readonly tokens: () => readonly TokenEntry[];
}

export class Inbox extends Service {
  readonly #parts: InboxParts;
  readonly #places: readonly StreamPlace[];
  readonly #from = new Map<StreamPlace, From>();
  /** Streams with entries that were read and have to be tried again. */
  readonly #unfinished = new Set<StreamPlace>();
  #reclaimedAt = Number.NEGATIVE_INFINITY;
  #isUp: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(parts: InboxParts) {
    super();
    this.#parts = parts;
    this.#places = [...(parts.control ? [CONTROL] : []), ...(parts.ingest ? [INGEST] : [])];
    parts.connection.onUp(() => {
      for (const place of this.#places) this.#from.set(place, '0');
      this.#reclaimedAt = Number.NEGATIVE_INFINITY;
      this.#isUp();
    });
  }

  protected async onStart(): Promise<void> {
    await this.#parts.connection.start();
    this.stopSignal.addEventListener('abort', () => this.#isUp());
    this.#running = this.#run();
  }

  /** The connection is closed first: a read waits for entries. */
  protected async onStop(): Promise<void> {
    await this.#parts.connection.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { env, logger, connection } = this.#parts;
    let failures = 0;
    while (!this.stopSignal.aborted) {
      try {
        if (!connection.isUp) await this.#connected();
        else if (await this.#step()) failures = 0;
        else await pause(env.timers, backoffMs(RETRY, ++failures, env.random.next()), this.stopSignal);
      } catch (error) {
        if (!(error instanceof RedisAway) && failures === 0)
          logger?.warn('entries in Redis could not be taken; this is tried again', {
            reason: describeThrown(error),
          });
        await pause(env.timers, backoffMs(RETRY, ++failures, env.random.next()), this.stopSignal);
      }
    }
  }

  #connected(): Promise<void> {
    return new Promise((resolve) => {
      this.#isUp = resolve;
      if (this.stopSignal.aborted || this.#parts.connection.isUp) resolve();
    });
  }

  /** False where entries have to be tried again later. */
  async #step(): Promise<boolean> {
    await this.#reclaim();
    const passedBy = this.#places.filter(
      (place) => this.#unfinished.has(place) && this.#from.get(place) === '>',
    );
    let isDone = true;
    for (const { place, entries } of await this.#read())
      if (!(await this.#take(place, entries))) isDone = false;
    for (const place of passedBy) this.#from.set(place, '0');
    return isDone;
  }

  /** A page of a stream. I2: until it is finished, the next read brings it again. */
  async #take(place: StreamPlace, entries: readonly Entry[]): Promise<boolean> {
    const from = this.#from.get(place);
    this.#from.set(place, '0');
    // An entry that somebody has deleted since it was read has no fields.
    const present = entries.filter(({ fields }) => fields.size > 0);
    const gone = entries.filter(({ fields }) => fields.size === 0);
    const outcomes = place === CONTROL ? await this.#order(present) : await this.#ingest(present);
    await this.#finish(place, [...present, ...gone], [...outcomes, ...gone.map(() => 'done' as const)]);
    if (outcomes.includes('later')) {
      this.#unfinished.add(place);
      // Orders are not of one kind: one that has to wait does not hold up those behind it.
      if (place === CONTROL && from === '0') this.#from.set(place, '>');
      return false;
    }
    if (from === '0' && entries.length === PAGE) return true;
    if (from === '0') this.#unfinished.delete(place);
    this.#from.set(place, '>');
    return true;
  }

  async #reclaim(): Promise<void> {
    const { env, connection, claimIdleMs } = this.#parts;
    const now = env.clock.monotonic();
    if (now - this.#reclaimedAt < claimIdleMs / LOOKS_PER_IDLE) return;
    for (const place of this.#places)
      if (await reclaim(connection, place, claimIdleMs)) this.#from.set(place, '0');
    this.#reclaimedAt = now;
  }

  async #read(): Promise<{ place: StreamPlace; entries: Entry[] }[]> {
    const { connection, claimIdleMs } = this.#parts;
    const keys = this.#places.map(({ key }) => key);
    const from = this.#places.map((place) => this.#from.get(place) ?? '0');
    const command = ['XREADGROUP', 'GROUP', INGEST.group, BRAIN, 'COUNT', String(PAGE)];
    const blockMs = Math.min(BLOCK_MS, Math.ceil(claimIdleMs / LOOKS_PER_IDLE));
    const block = from.includes('0') ? [] : ['BLOCK', String(blockMs)];
    const [reply] = await connection.pipeline([[...command, ...block, 'STREAMS', ...keys, ...from]], blockMs);
    if (codeOf(reply) === 'NOGROUP') {
      // From 0, so that no entry is passed over that was there before the group.
      await connection.pipeline(keys.map((key) => ['XGROUP', 'CREATE', key, INGEST.group, '0', 'MKSTREAM']));
      return [];
    }
    if (reply instanceof Error) throw reply;
    const streams = (reply ?? []) as readonly (readonly [string, Reply])[];
    return streams.map(([key, entries]) => ({
      place: this.#places.find((place) => place.key === key) ?? INGEST,
      entries: entriesIn(entries),
    }));
  }

  async #order(entries: readonly Entry[]): Promise<Outcome[]> {
    const { orchestrator, tokens } = this.#parts;
    const outcomes: Outcome[] = [];
    for (const entry of entries)
      outcomes.push(
        await carryOut(entry, orchestrator, tokens()).then(
          () => 'done' as const,
          (error: unknown) => refusalOf(toOrchdError(error)),
        ),
      );
    return outcomes;
  }

  /** All jobs of a page are admitted in one commit. */
  async #ingest(entries: readonly Entry[]): Promise<Outcome[]> {
    const { env, events, orchestrator } = this.#parts;
    const parsed: (Ingested | OrchdError)[] = [];
    for (const entry of entries)
      parsed.push(await requestIn(entry, events, env.timers).catch((error: unknown) => toOrchdError(error)));
    const good = parsed.filter((each): each is Ingested => !(each instanceof OrchdError));
    const isLarge = good.some(({ size }) => size === 'large');
    const caller = { ...CALLER, ...(isLarge && { bodySize: 'large' as const }) };
    const requests = good.map(({ request }) => request);
    const answers =
      requests.length === 0
        ? []
        : await orchestrator.submitMany(requests, caller).catch((error: unknown) => {
            if (error instanceof OrchdError && NOT_NOW.has(error.code)) return requests.map(() => error);
            throw error;
          });
    let at = 0;
    return parsed.map((each) => {
      if (each instanceof OrchdError) return refusalOf(each);
      const answer = answers[at++];
      return answer instanceof OrchdError ? refusalOf(answer) : 'done';
    });
  }

  /** I1. After a crash between the note and the end of an entry there is a second note. */
  async #finish(place: StreamPlace, entries: readonly Entry[], outcomes: readonly Outcome[]): Promise<void> {
    const { connection, logger } = this.#parts;
    const over: string[] = [];
    const refused: string[] = [];
    const notes: Command[] = [];
    for (const [at, { id }] of entries.entries()) {
      const outcome = outcomes[at];
      if (outcome === 'done') over.push(id);
      if (typeof outcome !== 'object') continue;
      refused.push(id);
      notes.push(unusable(place.key, entries[at] as Entry, outcome.refused));
    }
    const noted = notes.length > 0 ? await connection.pipeline(notes) : [];
    // A full server takes no note. Then it is room that is needed most.
    const isFull = noted.some((reply) => codeOf(reply) === 'OOM');
    if (isFull) logger?.warn('Redis is full: entries that cannot be used go without a note in the DLQ');
    over.push(...refused.filter((_, at) => !(noted[at] instanceof Error) || codeOf(noted[at]) === 'OOM'));
    if (over.length > 0) {
      const replies = await connection.pipeline(transaction(endingOf(place, over)));
      const refusal = replies.find((reply) => reply instanceof Error);
      if (refusal) throw refusal;
    }
    const failure = noted.find((reply) => reply instanceof Error && codeOf(reply) !== 'OOM');
    if (failure) throw failure;
  }
}

const refusalOf = ({ code, message }: OrchdError): Outcome =>
  NOT_NOW.has(code) ? 'later' : { refused: `${code}: ${message}` };
