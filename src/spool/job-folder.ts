/** Reads the folder of a job, and changes its status. */
import type { Disk } from '../kit/env/env.ts';
import type { Actor } from './actor.ts';
import { textOf } from './actor.ts';
import { attemptId, freshLifecycle, type Lifecycle, parseLifecycle, type ReadLifecycle } from './envelope.ts';
import type { HistoryLine } from './history.ts';
import { jobFiles } from './layout.ts';
import { appendLine, readPlainText, replaceSynced } from './plain-files.ts';
import type { Spool } from './spool.ts';
import { mayChangeStatus, type SpoolStatus } from './states.ts';

/** No `result.json` is this long: one that is counts as incomplete. */
const MAX_RESULT_BYTES = 64 * 1024 * 1024;

/** A folder without a `job.json` is that of a job which nobody has touched yet. */
export async function readLifecycle({ env, settings }: Spool, folder: string): Promise<ReadLifecycle> {
  const read = await readPlainText(env.disk, jobFiles(folder).job);
  if (read.is === 'absent') return { is: 'read', lifecycle: freshLifecycle(settings.maxRetries) };
  if (read.is === 'bad') return { is: 'unreadable', why: `job.json ${read.why}` };
  return parseLifecycle(read.text, settings.maxRetries);
}

/** Whether the job has been run to its end: its `result.json` is JSON, as no beginning of an object is. */
export const hasResult = async (disk: Disk, folder: string): Promise<boolean> =>
  (await readResult(disk, folder)) !== undefined;

/** The JSON text of a complete `result.json`. */
export async function readResult(disk: Disk, folder: string): Promise<string | undefined> {
  const read = await readPlainText(disk, jobFiles(folder).result, MAX_RESULT_BYTES);
  return read.is === 'text' && isJson(read.text) ? read.text.trim() : undefined;
}

/** From here on the job has been run to its end. Throws before anything is written where the result is no JSON. */
export async function writeResult(disk: Disk, folder: string, result: unknown): Promise<void> {
  const files = jobFiles(folder);
  const text = JSON.stringify(result ?? null) as string | undefined;
  if (text === undefined) throw new Error('it is no JSON');
  if (Buffer.byteLength(text) >= MAX_RESULT_BYTES)
    throw new Error(`it has ${MAX_RESULT_BYTES} bytes or more`);
  await replaceSynced(disk, files.result, files.temporaryResult, `${text}\n`);
}

/**
 * Makes the events of a job durable before its result is: a brain that has got the result may read them again after a
 * power cut.
 */
export async function syncEvents(disk: Disk, folder: string): Promise<void> {
  const { events } = jobFiles(folder);
  if ((await disk.lstat(events))?.kind !== 'file') return;
  const file = await disk.open(events, 'plain');
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export interface StatusChange {
  readonly from: SpoolStatus;
  readonly to: SpoolStatus;
  readonly changes?: Partial<Lifecycle>;
}

/**
 * Writes another status to the `job.json` of a folder that is the actor's alone, and a line to its history. The only
 * writer of a status: what the table of states does not allow is a defect, and throws.
 */
export async function changeStatus(
  actor: Actor,
  folder: string,
  lifecycle: Lifecycle,
  { from, to, changes }: StatusChange,
): Promise<Lifecycle> {
  if (!mayChangeStatus(from, to)) throw new Error(`illegal change of status ${from} -> ${to}`);
  const { disk, clock } = actor.spool.env;
  const at = new Date(clock.now()).toISOString();
  const next: Lifecycle = {
    ...lifecycle,
    ...changes,
    status: to,
    moves: lifecycle.moves + 1,
    changed_at: at,
  };
  const { history } = jobFiles(folder);
  const line: HistoryLine = {
    n: next.moves,
    at,
    from,
    to,
    actor: actor.id,
    attempt: next.attempt,
    reason: changes?.reason,
  };
  await appendLine(disk, history, JSON.stringify(line));
  await rewriteLifecycle(actor, folder, next);
  return next;
}

/** Replaces the `job.json` of a folder that is the actor's alone by one with the same status. */
export function rewriteLifecycle({ spool }: Actor, folder: string, lifecycle: Lifecycle): Promise<void> {
  const { job, temporaryJob } = jobFiles(folder);
  return replaceSynced(spool.env.disk, job, temporaryJob, textOf(lifecycle));
}

/** The log line of a change of status, once it has come to pass. */
export function logChange(actor: Actor, name: string, lifecycle: Lifecycle, from: SpoolStatus): void {
  actor.logger.info('the status of a job has changed', {
    job_id: name,
    correlation_id: attemptId(lifecycle, name),
    reason: lifecycle.reason,
    event: { type: 'state_transition', from, to: lifecycle.status },
  });
}
