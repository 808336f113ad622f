/**
 * The process of an upstream's executor. It outlives the brain: the next brain finds it by the files in its folder. The
 * record with the secret is written before the process is started, so that one whose brain died at once is known too.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnWorker, trimLog } from '../../daemons/pool-manager/processes.ts';
import {
  ADDRESS_FILE,
  EXECUTOR_PROGRAM,
  type ExecutorAddress,
  isExecutorAddress,
  LAUNCH_VARIABLE,
  LEDGER_VARIABLE,
  TOKEN_VARIABLE,
} from '../../daemons/upstream/layout.ts';
import type { Env } from '../../kit/env/env.ts';
import { poll } from '../../kit/poll.ts';
import { plainEnvironment } from '../../kit/process/environment.ts';
import { isAlive, signal } from '../../kit/process/identity.ts';
import { isAnyAlive, signalMarked } from '../../kit/process/marked.ts';
import { readRecord, writeRecord } from '../../kit/record-file.ts';
import { OrchdError } from '../../model/errors.ts';

interface LaunchRecord {
  /** Made at random for each start; the executor repeats it in its address, and carries it as its mark. */
  readonly launch: string;
  readonly secret: string;
}

const isLaunchRecord = (value: unknown): value is LaunchRecord => {
  const { launch, secret } = (value ?? {}) as Partial<LaunchRecord>;
  return typeof launch === 'string' && typeof secret === 'string';
};

export interface Executor extends ExecutorAddress {
  readonly secret: string;
}

const RECORD_FILE = 'executor.json';
const LOG_FILE = 'executor.log';
/** Longer than a process takes to start, even on an overloaded machine. */
const START = { everyMs: 20, atMostMs: 60_000 };
const SECRET_BYTES = 32;

/** Variables that an executor gets beside the plain ones: certificates of private servers, and what tests set. */
const PASSED_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'ORCHD_LOG_LEVEL', LEDGER_VARIABLE];

const markOf = (launch: string) => ({ variable: LAUNCH_VARIABLE, value: launch });

/** The executor that an earlier brain has started in this folder, if it is alive. */
export async function findExecutor(env: Env, folder: string): Promise<Executor | undefined> {
  const record = await readRecord(env.disk, join(folder, RECORD_FILE), isLaunchRecord);
  return record && awaitAddress(env, folder, record, () => !isAnyAlive(markOf(record.launch), undefined));
}

/** Starts an executor in this folder, in which none is alive. */
export async function startExecutor(env: Env, folder: string): Promise<Executor> {
  const record = { launch: env.random.hex(16), secret: env.random.hex(SECRET_BYTES) };
  await env.disk.makeFolder(folder);
  await writeRecord(env, join(folder, RECORD_FILE), record);
  const log = join(folder, LOG_FILE);
  trimLog(log);
  let hasEnded = false;
  const started = await spawnWorker(
    {
      argv: [process.execPath, fileURLToPath(EXECUTOR_PROGRAM), folder],
      env: { ...environment(), [TOKEN_VARIABLE]: record.secret },
      mark: markOf(record.launch),
      log,
      cwd: folder,
    },
    () => {
      hasEnded = true;
    },
  );
  if (started.is === 'failed')
    throw new OrchdError(
      'WORKER_START_FAILED',
      `the executor of an upstream cannot be started (${started.why})`,
    );
  const executor = await awaitAddress(env, folder, record, () => hasEnded);
  if (!executor)
    throw new OrchdError('WORKER_START_FAILED', `the executor of an upstream ended; its log is ${LOG_FILE}`);
  return executor;
}

export const isRunning = ({ process }: Executor): boolean => isAlive(process);

/** Keeps the log of an executor short. */
export const trimExecutorLog = (folder: string): void => trimLog(join(folder, LOG_FILE));

/** Asks the executor to end. Only for one without work: what runs has a grace time only. */
export function endExecutor({ process, launch }: Executor): void {
  if (isAlive(process)) signal(process.pid, 'SIGTERM');
  else signalMarked(markOf(launch), undefined, 'SIGTERM');
}

/** Undefined when the process has ended before it wrote its address. */
async function awaitAddress(
  env: Env,
  folder: string,
  record: LaunchRecord,
  hasEnded: () => boolean,
): Promise<Executor | undefined> {
  const look = async (): Promise<Executor | 'ended' | undefined> => {
    const address = await readRecord(env.disk, join(folder, ADDRESS_FILE), isExecutorAddress);
    if (address?.launch === record.launch && isAlive(address.process))
      return { ...address, secret: record.secret };
    return hasEnded() ? 'ended' : undefined;
  };
  const found = await poll(env, START, look);
  return found === 'ended' ? undefined : found;
}

function environment(): Record<string, string> {
  const passed = plainEnvironment();
  for (const name of PASSED_VARIABLES) {
    const value = process.env[name];
    if (value !== undefined) passed[name] = value;
  }
  return passed;
}
