/**
 * The brain's side of a keeper: starts one, hands orders to it, and starts another where it has died. A keeper ends by
 * itself after its last command when the brain does, because its standard input closes.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Env } from '../../../kit/env/env.ts';
import { plainEnvironment } from '../../../kit/process/environment.ts';
import { within } from '../../../kit/within.ts';
import type { CommandSpec, KeeperOrder, KeeperReply, OrderHeader, ReplyLine } from './keeper-wire.ts';

/** Longer than a process takes to start, even on an overloaded machine. */
const REPLY_TIMEOUT_MS = 30_000;
const MAX_REPLY_CHARS = 100_000;
/** A keeper may die while it waits for an order; then another one gets the order. */
const MAX_KEEPERS_PER_ORDER = 2;
const NO_PAYLOAD = Buffer.alloc(0);

/** Flags that keep the memory of the keeper small: every fork copies the table of its pages. */
const SMALL = ['--max-semi-space-size=1', '--single-threaded'];

const IS_SOURCE = import.meta.url.endsWith('.ts');
/**
 * Where Node keeps the source without its types: stripping them takes memory that the keeper would have for the rest of
 * its life.
 */
const STRIPPED_CODE = {
  NODE_COMPILE_CACHE: join(import.meta.dirname, '../../../..', 'node_modules', '.cache', 'orchd-keeper'),
};

export class KeeperClient {
  readonly #env: Env;
  readonly #folder: string;
  readonly #stopSignal: AbortSignal;
  #keeper: KeeperProcess | undefined;

  constructor(env: Env, folder: string, stopSignal: AbortSignal) {
    this.#env = env;
    this.#folder = folder;
    this.#stopSignal = stopSignal;
    stopSignal.addEventListener('abort', () => this.#keeper?.leave());
  }

  /** Starts the keeper unless there is one, so that the first offer does not wait for it. */
  prepare(): void {
    try {
      if (!this.#stopSignal.aborted) this.#living();
    } catch {
      // `run` starts a keeper itself, and reports why that fails.
    }
  }

  /** Throws when no answer comes in time: the command may have been started or not. */
  run(spec: CommandSpec, payload: string | Uint8Array, registry: string): Promise<KeeperReply> {
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload;
    return this.#order({ is: 'run', spec }, bytes, registry);
  }

  /** Has the keeper take over an execution whose keeper is dead. */
  adopt(name: string, registry: string): Promise<KeeperReply> {
    return this.#order({ is: 'adopt', name }, NO_PAYLOAD, registry);
  }

  /** Ends a command of the keeper that this brain has now; one of another keeper is not found. */
  async kill(name: string, registry: string): Promise<void> {
    await this.#order({ is: 'kill', name }, NO_PAYLOAD, registry);
  }

  /** A second keeper is safe: where the first one did carry out the order, the second answers `taken`. */
  async #order(order: KeeperOrder, payload: Uint8Array, registry: string): Promise<KeeperReply> {
    for (let tries = 0; tries < MAX_KEEPERS_PER_ORDER; tries++) {
      const keeper = this.#living();
      const reply = await within(
        this.#env.timers,
        REPLY_TIMEOUT_MS,
        keeper.send({ folder: this.#folder, registry, order }, payload),
        'late',
      );
      if (this.#stopSignal.aborted) keeper.leave();
      if (reply !== undefined && reply !== 'late' && reply.is !== 'stopping') return reply;
      // A keeper that hangs goes on with its commands if it can; new ones get another.
      keeper.leave();
      if (this.#keeper === keeper) this.#keeper = undefined;
      if (reply === 'late') throw new Error('no answer in time');
    }
    return { is: 'failed', message: 'the keeper ended without an answer' };
  }

  #living(): KeeperProcess {
    if (!this.#keeper?.isUsable) this.#keeper = new KeeperProcess(this.#folder);
    return this.#keeper;
  }
}

class KeeperProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (reply: KeeperReply | undefined) => void>();
  #orders = 0;
  #isLeft = false;
  #isGone = false;
  #text = '';

  constructor(folder: string) {
    // The published build has .js files beside each other just as the source has .ts files.
    const script = IS_SOURCE ? './keeper-main.ts' : './keeper-main.js';
    const child = spawn(process.execPath, [...SMALL, fileURLToPath(new URL(script, import.meta.url))], {
      cwd: folder,
      // The keeper gets only the variables that a command gets as well, so no secret of the brain.
      env: { ...plainEnvironment(), ...(IS_SOURCE ? STRIPPED_CODE : {}) },
      detached: true,
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    this.#child = child;
    this.#keepBrainAlive(false);
    child.stdin?.on('error', () => undefined);
    child.stdout?.setEncoding('utf8').on('data', (more: string) => this.#heard(more));
    child.on('error', () => this.#gone());
    // Not on `exit`: replies may still arrive after it.
    child.on('close', () => this.#gone());
  }

  get isUsable(): boolean {
    return !this.#isGone && !this.#isLeft;
  }

  /** The keeper's reply; undefined when it ends without one. */
  send(about: Omit<OrderHeader, 'id' | 'bytes'>, payload: Uint8Array): Promise<KeeperReply | undefined> {
    if (this.#isGone) return Promise.resolve(undefined);
    const id = ++this.#orders;
    const header: OrderHeader = { id, bytes: payload.length, ...about };
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#keepBrainAlive(true);
      this.#child.stdin?.write(`${JSON.stringify(header)}\n`);
      if (payload.length > 0) this.#child.stdin?.write(payload);
    });
  }

  /** Hands no more orders to it: it ends after its last command. */
  leave(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#child.stdin?.end();
  }

  #heard(more: string): void {
    const lines = (this.#text + more).split('\n');
    this.#text = lines.pop() ?? '';
    if (this.#text.length > MAX_REPLY_CHARS) return this.#gone();
    for (const line of lines) this.#replied(line);
  }

  #replied(line: string): void {
    let reply: ReplyLine;
    try {
      reply = JSON.parse(line) as ReplyLine;
    } catch {
      return this.#gone();
    }
    const { id, ...answer } = reply;
    this.#waiting.get(id)?.(answer);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#keepBrainAlive(false);
  }

  #gone(): void {
    this.#isGone = true;
    for (const resolve of this.#waiting.values()) resolve(undefined);
    this.#waiting.clear();
    this.#keepBrainAlive(false);
  }

  /** Sets whether the keeper and its pipes keep this process from exiting. */
  #keepBrainAlive(keeps: boolean): void {
    const parts = [this.#child, this.#child.stdin, this.#child.stdout];
    for (const part of parts as ({ ref(): void; unref(): void } | null)[]) {
      if (keeps) part?.ref();
      else part?.unref();
    }
  }
}
