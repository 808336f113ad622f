/**
 * The last known state of an upstream on disk. It is only for messages: a brain that is started without the upstream can
 * tell waiting jobs who had their model.
 */
import { join } from 'node:path';
import { checker } from '../../kit/check.ts';
import type { Env } from '../../kit/env/env.ts';
import { readRecord, writeRecord } from '../../kit/record-file.ts';
import { UpstreamState } from '../../model/upstream-wire.ts';

interface LastState {
  /** Wall-clock time of the last change. */
  readonly at: number;
  readonly state: UpstreamState;
}

const STATE_FILE = 'state.json';
/** A state that is older is of no interest: ended jobs are kept for as long by default. */
const KEEP_MS = 7 * 24 * 3_600_000;

const checkState = checker(UpstreamState);

const isLastState = (value: unknown): value is LastState => {
  try {
    checkState((value as Partial<LastState>).state);
    return typeof (value as Partial<LastState>).at === 'number';
  } catch {
    return false;
  }
};

export async function readLastState(env: Env, folder: string): Promise<UpstreamState | undefined> {
  const found = await readRecord(env.disk, join(folder, STATE_FILE), isLastState);
  return found && env.clock.now() - found.at < KEEP_MS ? found.state : undefined;
}

/** Never throws. */
export async function keepLastState(env: Env, folder: string, state: UpstreamState): Promise<void> {
  const kept: LastState = { at: env.clock.now(), state };
  await writeRecord(env, join(folder, STATE_FILE), kept, 'visible').catch(() => undefined);
}
