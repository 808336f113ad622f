/**
 * The connection of a brain to Redis: kept up in the background. While there is none, commands fail at once: whatever is
 * in Redis can be made again out of the records.
 */
import { backoffMs } from '../../kit/backoff.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { every } from '../../kit/every.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { Service } from '../../kit/service.ts';
import { readWholeFile } from '../../kit/whole-file.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  type Address,
  type Command,
  loadRedis,
  placeOf,
  RedisAway,
  RedisClient,
  type Reply,
} from './client.ts';
import { masterOf } from './master.ts';
import { type Problem, problemOf, problemsOf } from './server-check.ts';
import type { RedisSettings } from './settings.ts';

export interface ConnectionParts {
  readonly env: Pick<Env, 'clock' | 'timers' | 'random' | 'disk'>;
  readonly logger: Logger | undefined;
  readonly settings: RedisSettings;
}

const RETRY = { baseDelayMs: 100, maxDelayMs: 10_000, jitter: 0.5 };
/** How often the server is asked about itself: by then, what has been repaired is no problem any more. */
const CHECK_MS = 30_000;

type State =
  | { readonly is: 'away' }
  | { readonly is: 'up'; readonly client: RedisClient; readonly address: Address };

export class RedisConnection extends Service {
  readonly #parts: ConnectionParts;
  #state: State = { is: 'away' };
  readonly #listeners: (() => void)[] = [];
  /** By kind. */
  readonly #problems = new Map<string, Problem>();
  #running: Promise<void> = Promise.resolve();
  #checking: Cancel = () => undefined;
  /** How often the connection was lost, or could not be made. */
  failures = 0;

  constructor(parts: ConnectionParts) {
    super();
    this.#parts = parts;
  }

  get isUp(): boolean {
    return this.#state.is === 'up';
  }

  /** What is wrong, in words for the operator; empty while all is well. */
  problems(): readonly string[] {
    return Array.from(this.#problems.values(), ({ text }) => text);
  }

  /** Calls the listener whenever a connection is there: what is known of the server's keys no longer counts then. */
  onUp(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Throws CONFIG_INVALID where the package or a file is missing. It does not wait for the server. */
  protected async onStart(): Promise<void> {
    const { env, settings } = this.#parts;
    await loadRedis();
    const { caFile } = settings.tls;
    if (caFile !== undefined && (await readWholeFile(env.disk, caFile)) === undefined)
      throw new OrchdError('CONFIG_INVALID', `redis.tls.ca_file names no file: ${caFile}`, {
        field: 'redis.tls.ca_file',
      });
    this.#running = this.#keepUp();
    this.#checking = every(this.#parts.env.timers, CHECK_MS, () => void this.#check());
  }

  protected async onStop(): Promise<void> {
    this.#checking();
    if (this.#state.is === 'up') this.#state.client.close();
    await this.#running;
  }

  async call(command: Command, waitsMs = 0): Promise<Reply> {
    const [reply] = await this.pipeline([command], waitsMs);
    if (reply instanceof Error) throw reply;
    return reply ?? null;
  }

  /** Sends commands at once; a refused one has an Error as its reply. Throws RedisAway while there is no connection. */
  async pipeline(commands: readonly Command[], waitsMs = 0): Promise<Reply[]> {
    if (this.#state.is === 'away') throw new RedisAway('there is no connection');
    const { client } = this.#state;
    const replies = await client.pipeline(commands, waitsMs);
    for (const reply of replies.flat()) if (reply instanceof Error) this.#refused(client, reply);
    return replies;
  }

  #refused(client: RedisClient, error: Error): void {
    const problem = problemOf(error);
    if (EXPECTED.has(problem.kind)) return;
    this.#note(problem);
    // What was the master has become a replica: the sentinels know the new one.
    if (problem.kind === 'READONLY' && this.#parts.settings.sentinels.hosts.length > 0) client.close();
  }

  #note(problem: Problem): void {
    if (this.#problems.has(problem.kind)) return;
    this.#problems.set(problem.kind, problem);
    this.#parts.logger?.warn('Redis does not work as it should; consumers can go on by long poll', {
      reason: problem.text,
    });
  }

  async #keepUp(): Promise<void> {
    const { env } = this.#parts;
    let failures = 0;
    while (!this.stopSignal.aborted) {
      try {
        await this.#connected();
        failures = 0;
      } catch (error) {
        failures++;
        this.#notUp(error as Error);
      }
      this.failures++;
      if (!this.stopSignal.aborted)
        await pause(env.timers, backoffMs(RETRY, failures + 1, env.random.next()), this.stopSignal);
    }
  }

  /** Resolves when a connection that was made is lost. */
  async #connected(): Promise<void> {
    const { env, settings, logger } = this.#parts;
    const address = await masterOf(env, settings);
    const client = await RedisClient.connect(env, address, placeOf(settings));
    const lost = new Promise<void>((resolve) => client.onLost(resolve));
    try {
      const found = await problemsOf((commands) => client.pipeline(commands));
      const isReplica = found.some(({ kind }) => kind === 'READONLY');
      if (isReplica && settings.sentinels.hosts.length > 0)
        throw new RedisAway('the sentinels name a server that is no master yet');
      if (this.stopSignal.aborted) return;
      const wasAway = this.#problems.has('away');
      this.#replaceProblems(found);
      this.#state = { is: 'up', client, address };
      if (wasAway) logger?.info('Redis is back', { count: this.failures });
      for (const listener of this.#listeners) listener();
      await lost;
    } finally {
      this.#state = { is: 'away' };
      client.close();
    }
    if (!this.stopSignal.aborted) this.#notUp(new RedisAway('the connection is lost'));
  }

  /** Logged once, until Redis is back. */
  #notUp(error: Error): void {
    if (this.#problems.has('away')) return;
    const refusal = problemOf(error);
    const text = REFUSALS.has(refusal.kind) ? refusal.text : `Redis does not answer (${wordsOf(error)})`;
    this.#problems.set('away', { kind: 'away', text });
    this.#parts.logger?.warn('Redis is away: consumers are served by long poll until it is back', {
      reason: text,
    });
  }

  async #check(): Promise<void> {
    const state = this.#state;
    if (state.is === 'away') return;
    const { env, settings } = this.#parts;
    try {
      if (settings.sentinels.hosts.length > 0) {
        const { host, port } = await masterOf(env, settings);
        if (host !== state.address.host || port !== state.address.port) return state.client.close();
      }
      this.#replaceProblems(await problemsOf((commands) => state.client.pipeline(commands)));
    } catch {
      // Where the connection is lost, that is noticed by whoever keeps it up.
    }
  }

  /** A problem that is still there is not logged again. */
  #replaceProblems(found: readonly Problem[]): void {
    const kinds = new Set(found.map(({ kind }) => kind));
    for (const kind of this.#problems.keys()) if (!kinds.has(kind)) this.#problems.delete(kind);
    for (const problem of found) {
      this.#note(problem);
      // A refused command says less than a look at the server.
      this.#problems.set(problem.kind, problem);
    }
  }
}

/** Errors that a running brain meets: a group that there is already, or none after a FLUSHALL. */
const EXPECTED: ReadonlySet<string> = new Set(['BUSYGROUP', 'NOGROUP', 'EXECABORT', 'UNBLOCKED', 'ERR']);

/** Refusals of the user, which come before a connection can be used. */
const REFUSALS: ReadonlySet<string> = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM']);

/** The message may hold what the configuration has, so only ours and the codes of the system are shown. */
function wordsOf(error: Error): string {
  if (error instanceof RedisAway) return error.message;
  const { code } = error as NodeJS.ErrnoException;
  return code ?? error.constructor.name;
}
