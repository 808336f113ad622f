/** Private Redis servers for tests and benches: real ones, with a data folder of their own, that may be killed and emptied. */
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';
import { freePort } from '../../src/kit/free-port.ts';
import { needDebian } from './debian.ts';

const START_MS = 30_000;
const START_TRIES = 5;
const LOOPBACK = '127.0.0.1';

export interface RedisOptions {
  /** The folder above its own; a test that only kills may keep it in memory. */
  readonly folder?: string;
  /** Options as on the command line of redis-server: ['--maxmemory', '4mb']. They come last, so that they count. */
  readonly args?: readonly string[];
  /** The program; it is found or installed where none is given. */
  readonly program?: string;
  /** The address that it listens on; loopback by default. */
  readonly host?: string;
  /** Words before the command, such as those that run it in a network namespace. */
  readonly within?: readonly string[];
}

/** A reply as Redis gives it: texts, numbers, null, and lists of them. */
export type Reply = string | number | null | readonly Reply[];

/** Writes before they are answered are on the disk, so that a kill loses nothing. */
export const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''];

export async function ownRedis(options: RedisOptions = {}): Promise<OwnRedis> {
  const program = options.program ?? (await needDebian('redis-server'));
  return started((port) => new OwnRedis(program, port, options));
}

/** A sentinel that watches `master` under the name `orchd`, and replaces it soon after its death. */
export async function ownSentinel(master: OwnRedis, quorum = 1): Promise<OwnRedis> {
  const program = await needDebian('redis-sentinel');
  return started((port) => new OwnSentinel(program, port, master, quorum));
}

/** Another process may take a free port before the server does: then another one is tried. */
async function started<T extends OwnRedis>(make: (port: number) => T): Promise<T> {
  for (let tries = 1; ; tries++) {
    const server = make(await freePort());
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      if (tries === START_TRIES) throw error;
    }
  }
}

export class OwnRedis {
  readonly port: number;
  /** The Unix socket; it stays the same over restarts, like the port. */
  readonly socket: string;
  protected readonly folder: string;
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #host: string;
  readonly #within: readonly string[];
  #child: ChildProcess | undefined;

  constructor(program: string, port: number, options: RedisOptions) {
    const { folder = tmpdir(), args = [], host = LOOPBACK, within = [] } = options;
    this.#program = program;
    this.#args = args;
    this.#host = host;
    this.#within = within;
    this.port = port;
    this.folder = fs.mkdtempSync(join(folder, 'orchd-redis-'));
    this.socket = join(this.folder, 'redis.sock');
  }

  get url(): string {
    return `redis://${this.#host}:${this.port}`;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Starts it with the data that it has, or `empty`. */
  async start(how: 'as it was' | 'empty' = 'as it was'): Promise<void> {
    if (how === 'empty') this.removeData();
    const [program = '', ...words] = [...this.#within, this.#program, ...this.arguments()];
    const child = spawn(program, words, { stdio: 'ignore' });
    this.#child = child;
    const kill = (): void => void child.kill('SIGKILL');
    process.once('exit', kill);
    child.once('exit', () => process.off('exit', kill));
    child.once('error', () => undefined);
    const patience = Date.now() + START_MS;
    while (!(await this.#answers())) {
      if (child.pid === undefined || child.exitCode !== null || Date.now() > patience)
        throw new Error(`${this.#program} did not start:\n${this.#log()}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  protected arguments(): string[] {
    const own = ['--port', String(this.port), '--bind', this.#host, '--unixsocket', this.socket];
    const where = ['--dir', this.folder, '--logfile', join(this.folder, 'log')];
    // In its protected mode it refuses whoever does not come over loopback.
    const open = this.#host === LOOPBACK ? [] : ['--protected-mode', 'no'];
    return [...own, ...where, ...open, '--save', '', '--appendonly', 'no', ...this.#args];
  }

  protected removeData(): void {
    for (const name of ['appendonlydir', 'dump.rdb'])
      fs.rmSync(join(this.folder, name), { recursive: true, force: true });
  }

  /** One command on a connection of its own. */
  async call(...args: readonly string[]): Promise<Reply> {
    const client = createClient({ url: this.url, RESP: 2, socket: { reconnectStrategy: false } });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.sendCommand([...args])) as Reply;
    } finally {
      client.destroy();
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
    const gone = new Promise((resolve) => {
      child.once('exit', resolve);
    });
    child.kill(signal);
    await gone;
  }

  /** It keeps its connections and answers nothing, until `resume`. */
  pause(): void {
    this.#child?.kill('SIGSTOP');
  }

  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.kill();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  #log(): string {
    try {
      return fs.readFileSync(join(this.folder, 'log'), 'utf8').slice(-2000);
    } catch {
      return 'it left no log';
    }
  }

  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.port, this.#host, () => socket.write('PING\r\n'));
      socket.once('data', (data) => {
        socket.destroy();
        // A server that asks for a password has started as well.
        resolve(/^(\+PONG|-NOAUTH|-NOPERM)/.test(data.toString()));
      });
      socket.once('error', () => resolve(false));
      socket.once('close', () => resolve(false));
    });
  }
}

class OwnSentinel extends OwnRedis {
  readonly #watched: string;

  constructor(program: string, port: number, master: OwnRedis, quorum: number) {
    super(program, port, {});
    this.#watched = [
      `sentinel monitor orchd 127.0.0.1 ${master.port} ${quorum}`,
      'sentinel down-after-milliseconds orchd 500',
      'sentinel failover-timeout orchd 2000',
    ].join('\n');
  }

  /** A sentinel rewrites its configuration file, so it is written at each start. */
  protected override arguments(): string[] {
    const file = join(this.folder, 'sentinel.conf');
    fs.writeFileSync(
      file,
      `port ${this.port}\nbind 127.0.0.1\ndir ${this.folder}\nlogfile ${join(this.folder, 'log')}\n${this.#watched}\n`,
    );
    return [file];
  }
}
