/**
 * The last known state of an executor on disk, so that a brain that is started without it can tell waiting jobs who had
 * their model.
 */
import { join } from 'node:path';
import type { Env } from '../../kit/env/env.ts';
import { readRecord, writeRecord } from '../../kit/record-file.ts';

interface LastState {
  /** Wall-clock time of the last change. */
  readonly at: number;
  readonly state: object;
}

const STATE_FILE = 'state.json';
/** A state that is older is of no interest: ended jobs are kept for as long by default. */
const KEEP_MS = 7 * 24 * 3_600_000;

const isLastState = (value: unknown): value is LastState => {
  const { at, state } = (value ?? {}) as Partial<LastState>;
  return typeof at === 'number' && typeof state === 'object';
};

/** `read` throws where the state does not have the form that it has today: then there is none. */
export async function readLastState<State>(
  env: Env,
  folder: string,
  read: (state: unknown) => State,
): Promise<State | undefined> {
  const found = await readRecord(env.disk, join(folder, STATE_FILE), isLastState);
  if (!found || env.clock.now() - found.at >= KEEP_MS) return undefined;
  try {
    return read(found.state);
  } catch {
    return undefined;
  }
}

/** Never throws. */
export async function keepLastState(env: Env, folder: string, state: object): Promise<void> {
  const kept: LastState = { at: env.clock.now(), state };
  await writeRecord(env, join(folder, STATE_FILE), kept, 'visible').catch(() => undefined);
}
