/** One connection to a Redis server, by the package `redis`, an optional peer that is loaded when it is first needed. */
import type { Env, Timers } from '../../kit/env/env.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import type { RedisSettings } from './settings.ts';

/** A reply of Redis: a failed command within a transaction is an Error in the list. */
export type Reply = string | number | null | Error | readonly Reply[];
export type Command = readonly string[];

/** The server has not answered in time, or the connection is lost. Whether a command was carried out is not known. */
export class RedisAway extends Error {}

/** What a server may take for one answer, or to accept a connection. */
const ANSWER_MS = 5000;
/** Commands without an answer; there are never more than a pipeline of them. */
const MAX_UNANSWERED = 10_000;

export interface Address {
  readonly host: string;
  readonly port: number;
}

type Library = typeof import('redis');

export async function loadRedis(): Promise<Library> {
  try {
    return await import('redis');
  } catch (error) {
    const message = 'redis.url and redis.sentinels need the package "redis": npm install redis';
    throw new OrchdError('CONFIG_INVALID', message, {}, { cause: error });
  }
}

export interface Access {
  readonly username: string;
  readonly password: string;
  readonly database: number;
  /** Undefined: without TLS. */
  readonly tls: { readonly ca: string | undefined } | undefined;
}

/** The server of `redis.url`; with sentinels only its database, user and password count. */
export function placeOf(settings: RedisSettings): Address & Access {
  const text = settings.url.reveal();
  const url = text === '' ? undefined : new URL(text);
  const hasTls = settings.tls.isOn || url?.protocol === 'rediss:';
  return {
    host: (url?.hostname ?? '').replace(/^\[|\]$/g, ''),
    port: Number(url?.port || 6379),
    username: settings.username || decodeURIComponent(url?.username ?? ''),
    password: settings.password.reveal() || decodeURIComponent(url?.password ?? ''),
    database: Number(url?.pathname.slice(1) || 0),
    tls: hasTls ? { ca: settings.tls.caFile } : undefined,
  };
}

export class RedisClient {
  readonly #client: ReturnType<Library['createClient']>;
  readonly #timers: Timers;
  #isLost = false;
  #lost: () => void = () => undefined;

  private constructor(client: ReturnType<Library['createClient']>, timers: Timers) {
    this.#client = client;
    this.#timers = timers;
    // The client tells of errors by this event too, and an EventEmitter without a listener would throw them.
    client.on('error', () => this.#end());
    client.on('end', () => this.#end());
  }

  /** Rejects where the server does not answer in time, or refuses the user. */
  static async connect(
    { timers, disk }: Pick<Env, 'timers' | 'disk'>,
    address: Address,
    access: Access,
  ): Promise<RedisClient> {
    const { createClient } = await loadRedis();
    const { host, port } = address;
    const common = { host, port, connectTimeout: ANSWER_MS, reconnectStrategy: false as const };
    const ca = access.tls?.ca === undefined ? undefined : await readWholeFile(disk, access.tls.ca);
    const made = createClient({
      RESP: 2,
      socket: access.tls
        ? { ...common, tls: true, servername: host, ...(ca !== undefined && { ca }) }
        : common,
      ...(access.username !== '' && { username: access.username }),
      ...(access.password !== '' && { password: access.password }),
      database: access.database,
      disableOfflineQueue: true,
      commandsQueueMaxLength: MAX_UNANSWERED,
      // A user that may only use streams may not set it.
      disableClientInfo: true,
    }) as unknown as ReturnType<Library['createClient']>;
    const client = new RedisClient(made, timers);
    const isConnected = await within(
      timers,
      ANSWER_MS,
      made.connect().then(() => true),
      false,
    ).catch((error: unknown) => {
      client.close();
      throw error;
    });
    if (isConnected) return client;
    client.close();
    throw new RedisAway('the server accepts no connection');
  }

  /** Calls the listener once, when the connection is lost or closed. */
  onLost(listener: () => void): void {
    this.#lost = listener;
    if (this.#isLost) listener();
  }

  /** Sends a command. `waitsMs`: how long the server may wait by itself, as a blocking read does. */
  async call(command: Command, waitsMs = 0): Promise<Reply> {
    const [reply] = await this.pipeline([command], waitsMs);
    if (reply instanceof Error) throw reply;
    return reply ?? null;
  }

  /** Sends commands at once; a refused one has an Error as its reply. Throws RedisAway. */
  async pipeline(commands: readonly Command[], waitsMs = 0): Promise<Reply[]> {
    const replies = commands.map((command) => this.#client.sendCommand([...command]) as Promise<Reply>);
    const settled = await within(this.#timers, ANSWER_MS + waitsMs, Promise.allSettled(replies), undefined);
    if (settled === undefined) this.#end();
    if (settled === undefined || this.#isLost) throw new RedisAway('no answer');
    return settled.map((each) => (each.status === 'fulfilled' ? each.value : (each.reason as Error)));
  }

  close(): void {
    this.#end();
  }

  #end(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // Throws where it is closed already.
    if (this.#client.isOpen) this.#client.destroy();
    this.#lost();
  }
}

/** All of the commands or none: they are sent in a row between MULTI and EXEC. */
export const transaction = (commands: readonly Command[]): Command[] => [['MULTI'], ...commands, ['EXEC']];
