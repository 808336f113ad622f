/**
 * The process of an executor that the brain starts: that of an upstream, or a gateway. It outlives the brain: the next
 * brain finds it by the files in its folder. The record with the secret is written before the process is started, so that
 * one whose brain died at once is known too.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnWorker, trimLog } from '../../daemons/pool-manager/processes.ts';
import { ADDRESS_FILE, type ExecutorAddress, isExecutorAddress } from '../../daemons/upstream/layout.ts';
import type { Env } from '../../kit/env/env.ts';
import { poll } from '../../kit/poll.ts';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { isAlive, signal } from '../../kit/process/identity.ts';
import { isAnyAlive, type Mark, signalMarked } from '../../kit/process/marked.ts';
import { readRecord, writeRecord } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Executor, ExecutorHost } from './executor-host.ts';

export interface ExecutorProgram {
  /** The name of the program in messages, such as `the executor of an upstream`. */
  readonly what: string;
  /** The file that Node runs; its first argument is the folder. */
  readonly file: URL;
  /** The arguments after the folder. */
  readonly args?: readonly string[];
  /** The variable that holds the launch, by which its processes are known. */
  readonly launchVariable: string;
  /** The variable that holds the secret that callers must send. */
  readonly tokenVariable: string;
  /** Variables that it gets beside the plain ones, where they are set. */
  readonly passedVariables: readonly string[];
  /** What to look at when it ends at once, for people. */
  readonly hint?: string;
  /** The secret, instead of one that is made at random. */
  readonly secret?: string | undefined;
}

interface LaunchRecord {
  /** Made at random for each start; the executor repeats it in its address, and carries it as its mark. */
  readonly launch: string;
  readonly secret: string;
}

const isLaunchRecord = (value: unknown): value is LaunchRecord => {
  const { launch, secret } = (value ?? {}) as Partial<LaunchRecord>;
  return typeof launch === 'string' && typeof secret === 'string';
};

interface OwnExecutor extends Executor, ExecutorAddress {
  readonly secret: string;
}

const RECORD_FILE = 'executor.json';
const LOG_FILE = 'executor.log';
/** Longer than a process takes to start, even on an overloaded machine. */
const START = { everyMs: 20, atMostMs: 60_000 };
const SECRET_BYTES = 32;

/** Variables that every executor gets: certificates of private servers, and what tests set. */
const COMMON_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'ORCHD_LOG_LEVEL'];

export class ExecutorProcess implements ExecutorHost {
  readonly what: string;
  readonly #env: Env;
  readonly #folder: string;
  readonly #program: ExecutorProgram;
  #found: OwnExecutor | undefined;

  constructor(env: Env, folder: string, program: ExecutorProgram) {
    this.what = program.what;
    this.#env = env;
    this.#folder = folder;
    this.#program = program;
  }

  async open(isNeeded: boolean): Promise<Executor | undefined> {
    this.#found = (await this.#find()) ?? (isNeeded ? await this.#start() : undefined);
    return this.#found;
  }

  get isRunning(): boolean {
    return this.#found !== undefined && isAlive(this.#found.process);
  }

  tidy(): void {
    trimLog(join(this.#folder, LOG_FILE));
  }

  end(): void {
    if (!this.#found) return;
    const { process, launch } = this.#found;
    if (isAlive(process)) signal(process.pid, 'SIGTERM');
    else signalMarked(this.#markOf(launch), undefined, 'SIGTERM');
  }

  /** The executor that an earlier brain has started in this folder, if it is alive. */
  async #find(): Promise<OwnExecutor | undefined> {
    const record = await readRecord(this.#env.disk, join(this.#folder, RECORD_FILE), isLaunchRecord);
    return record && this.#awaitAddress(record, () => !isAnyAlive(this.#markOf(record.launch), undefined));
  }

  /** Starts an executor in this folder, in which none is alive. */
  async #start(): Promise<OwnExecutor> {
    const { what, file, args = [], tokenVariable, hint, secret } = this.#program;
    const { disk, random } = this.#env;
    const record = { launch: random.hex(16), secret: secret ?? random.hex(SECRET_BYTES) };
    await disk.makeFolder(this.#folder);
    await writeRecord(this.#env, join(this.#folder, RECORD_FILE), record);
    this.tidy();
    let hasEnded = false;
    const started = await spawnWorker(
      {
        argv: [process.execPath, fileURLToPath(file), this.#folder, ...args],
        env: { ...this.#environment(), [tokenVariable]: record.secret },
        mark: this.#markOf(record.launch),
        log: join(this.#folder, LOG_FILE),
        cwd: this.#folder,
      },
      () => {
        hasEnded = true;
      },
    );
    if (started.is === 'failed')
      throw new OrchdError('WORKER_START_FAILED', `${what} cannot be started (${started.why})`);
    const executor = await this.#awaitAddress(record, () => hasEnded);
    if (executor) return executor;
    const why = hint === undefined ? '' : `: ${hint}`;
    throw new OrchdError('WORKER_START_FAILED', `${what} ended${why}; its log is ${LOG_FILE}`);
  }

  /** Undefined when the process has ended before it wrote its address. */
  async #awaitAddress(record: LaunchRecord, hasEnded: () => boolean): Promise<OwnExecutor | undefined> {
    const look = async (): Promise<OwnExecutor | 'ended' | undefined> => {
      const path = join(this.#folder, ADDRESS_FILE);
      const address = await readRecord(this.#env.disk, path, isExecutorAddress);
      if (address?.launch === record.launch && isAlive(address.process))
        return { ...address, secret: record.secret };
      return hasEnded() ? 'ended' : undefined;
    };
    const found = await poll(this.#env, START, look);
    return found === 'ended' ? undefined : found;
  }

  #environment(): Record<string, string> {
    const passed = plainEnvironment();
    for (const name of [...COMMON_VARIABLES, ...this.#program.passedVariables]) {
      const value = process.env[name];
      if (value !== undefined) passed[name] = value;
    }
    return passed;
  }

  #markOf(launch: string): Mark {
    return { variable: this.#program.launchVariable, value: launch };
  }
}
