/**
 * Waits for the end of a job or a run, for a bounded time. It reads the job again and again, and does not follow it: the
 * brain cancels an interactive job whose last follower leaves, and whoever asks again later must still find it.
 */
import { pause } from '../../kit/pause.ts';
import type { ToolContext } from './tool.ts';

/** Below the minute after which many clients give up a call. */
export const MAX_WAIT_MS = 50_000;
export const DEFAULT_WAIT_MS = 20_000;

const FIRST_POLL_MS = 50;
const MAX_POLL_MS = 1000;
/** How often the client hears that the call goes on, if nothing changes. */
const PROGRESS_EVERY_MS = 5000;

/** Reads until `isDone`, and returns what was read last. A brain that cannot be reached now is asked again. */
export async function readUntil<T>(
  read: () => Promise<T>,
  { isDone, describe }: { isDone(value: T): boolean; describe(value: T): string },
  waitMs: number,
  context: ToolContext,
): Promise<T> {
  const { clock, timers, signal, onProgress } = context;
  const begin = clock.monotonic();
  let told = { message: '', atMs: 0 };
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(MAX_POLL_MS, 2 * pollMs)) {
    const found = await read().then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const passedMs = clock.monotonic() - begin;
    const isLast = passedMs >= waitMs || signal.aborted;
    if ('error' in found && (isLast || !mayPass(found.error))) throw found.error;
    if ('value' in found && (isLast || isDone(found.value))) return found.value;
    const message = 'value' in found ? describe(found.value) : 'orchd cannot be reached';
    if (message !== told.message || passedMs - told.atMs >= PROGRESS_EVERY_MS) {
      told = { message, atMs: passedMs };
      onProgress({ progress: Math.round(passedMs), total: waitMs, message });
    }
    await pause(timers, Math.min(pollMs, waitMs - passedMs), signal);
  }
}

const mayPass = (error: unknown): boolean => (error as { readonly retriable?: unknown }).retriable === true;
