/**
 * Hears of waiting jobs from a Redis stream. What it says is a hint, which may be lost, late or doubled; the claim alone
 * decides. While Redis is away, jobs are asked for by long poll.
 */
import type { Env } from '../kit/env/env.ts';
import { within } from '../kit/within.ts';
import type { ConsumerRegistered } from '../model/http/consumers.ts';

/** How long a read waits; after one in vain, whatever waits is claimed, since a hint may have been lost. */
const BLOCK_MS = 5000;
const ANSWER_MS = 5000;
/** How long Redis is not asked after it has failed. */
const AWAY_MS = 5000;
const MAX_UNANSWERED = 100;
const PACKAGE = 'redis';

/** The part of the package `redis`, an optional peer, that is used here. */
interface Library {
  createClient(options: object): Client;
}

interface Client {
  readonly isOpen: boolean;
  on(event: 'error', listener: () => void): void;
  connect(): Promise<unknown>;
  sendCommand(command: readonly string[]): Promise<unknown>;
  destroy(): void;
}

/** Undefined where the package is not installed. */
export const redisLibrary = (): Promise<Library | undefined> =>
  import(PACKAGE).then(
    (library) => library as Library,
    () => undefined,
  );

export interface StreamParts {
  readonly env: Pick<Env, 'timers' | 'clock'>;
  readonly library: Library;
  readonly url: string;
  readonly stop: AbortSignal;
  readonly onProblem: (message: string) => void;
}

export class StreamListener {
  readonly #parts: StreamParts;
  #client: Client | undefined;
  #awayUntil = 0;
  #mayWait = false;

  constructor(parts: StreamParts) {
    this.#parts = parts;
    parts.stop.addEventListener('abort', () => this.close());
  }

  /** Tokens of waiting jobs; none where whatever waits is to be claimed, and undefined while Redis is away. */
  async hear(
    room: number,
    { name, stream }: Pick<ConsumerRegistered, 'name' | 'stream'>,
  ): Promise<readonly string[] | undefined> {
    const { env, stop, onProblem } = this.#parts;
    if (!stream || stop.aborted || env.clock.monotonic() < this.#awayUntil) return undefined;
    // The first claim takes what waits already.
    if (!this.#mayWait) {
      this.#mayWait = true;
      return [];
    }
    const { group, key } = stream;
    const read = ['XREADGROUP', 'GROUP', group, name, 'COUNT', String(room), 'BLOCK', String(BLOCK_MS)];
    try {
      return tokensIn(await this.#call([...read, 'STREAMS', key, '>']));
    } catch (error) {
      this.close();
      this.#awayUntil = env.clock.monotonic() + AWAY_MS;
      this.#mayWait = false;
      if (!stop.aborted) onProblem(`Redis is away: ${error instanceof Error ? error.message : error}`);
      return undefined;
    }
  }

  close(): void {
    const client = this.#client;
    this.#client = undefined;
    if (client?.isOpen) client.destroy();
  }

  async #call(command: readonly string[]): Promise<unknown> {
    const { timers } = this.#parts.env;
    const client = this.#client ?? (await this.#connect());
    const answered = client.sendCommand(command).then((reply) => ({ reply }));
    const answer = await within(timers, BLOCK_MS + ANSWER_MS, answered, undefined);
    if (!answer) throw new Error('no answer');
    return answer.reply;
  }

  async #connect(): Promise<Client> {
    const { library, url, env, stop } = this.#parts;
    const client = library.createClient({
      url,
      RESP: 2,
      socket: { connectTimeout: ANSWER_MS, reconnectStrategy: false },
      disableOfflineQueue: true,
      commandsQueueMaxLength: MAX_UNANSWERED,
      // A user that may only use streams may not set it.
      disableClientInfo: true,
    });
    this.#client = client;
    // The rejected call tells of it; an EventEmitter without a listener would throw.
    client.on('error', () => undefined);
    const isConnected = await within(
      env.timers,
      ANSWER_MS,
      client.connect().then(() => true),
      false,
    );
    if (!isConnected || stop.aborted) throw new Error('the server accepts no connection');
    return client;
  }
}

/** A reply is a list of streams with their entries, whose fields stand in a flat list. */
function tokensIn(reply: unknown): string[] {
  type Entries = readonly (readonly [string, readonly (readonly [string, readonly string[] | null])[]])[];
  return ((reply ?? []) as Entries).flatMap(([, entries]) =>
    entries.flatMap(([, fields]) => {
      const at = fields ? fields.indexOf('token') : -1;
      return fields?.[at + 1] !== undefined && at >= 0 && at % 2 === 0 ? [fields[at + 1] as string] : [];
    }),
  );
}
