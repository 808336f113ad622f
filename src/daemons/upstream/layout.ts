/** The folder of an upstream's executor, which the brain and the executor share. */
import { isProcessIdentity, type ProcessIdentity } from '../../kit/process/identity.ts';

/** Written by the executor when it listens. */
export const ADDRESS_FILE = 'address.json';

export interface ExecutorAddress {
  /** The same as in the record that the brain wrote before it started the process. */
  readonly launch: string;
  readonly uri: string;
  readonly process: ProcessIdentity;
}

export function isExecutorAddress(value: unknown): value is ExecutorAddress {
  const { launch, uri, process } = (value ?? {}) as Partial<ExecutorAddress>;
  return typeof launch === 'string' && typeof uri === 'string' && isProcessIdentity(process);
}

/** Variables with which the brain starts an executor. */
export const LAUNCH_VARIABLE = 'ORCHD_UPSTREAM_LAUNCH';
export const TOKEN_VARIABLE = 'ORCHD_WORKER_TOKEN';
export const LEDGER_VARIABLE = 'ORCHD_WORKER_LEDGER';

/** The program of the executor, which gets the folder as its only argument. */
export const EXECUTOR_PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './executor-main.ts' : './executor-main.js',
  import.meta.url,
);
