/** Follows a job to its end, as text or as events. */
import type { OrchdClient, TaskEvent } from '../client/client.ts';
import type { AttemptView } from '../model/http/jobs.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import { EXIT, type Terminal } from './command.ts';
import { Answer } from './text/answer.ts';
import { adviceFor, codeText, nextStep, resultText } from './text/job-text.ts';
import { Progress } from './text/progress.ts';
import { harmless, oneLine } from './text/screen.ts';

/** The end of a job: the data of its last event. */
export interface Ended {
  readonly job_id: string;
  readonly state: JobState;
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly retriable?: boolean;
}

export interface FollowOptions {
  readonly signal: AbortSignal;
  readonly terminal: Terminal;
  readonly after?: string | undefined;
}

/**
 * Passes every event of a job to `onEvent` and returns the end of the job; undefined if the signal interrupted it. A lost
 * connection is reported on standard error.
 */
export async function follow(
  client: OrchdClient,
  jobId: string,
  options: FollowOptions,
  onEvent: (event: TaskEvent) => void | Promise<void>,
): Promise<Ended | undefined> {
  const { signal, terminal, after } = options;
  let lost = false;
  const onReconnect = (): void => {
    if (!lost) terminal.complain('orchd: the connection was lost; reconnecting');
    lost = true;
  };
  const events = client.events(jobId, { signal, onReconnect, ...(after !== undefined && { after }) });
  for await (const event of events) {
    lost = false;
    await onEvent(event);
    if (event.event === 'end' || event.event === 'error') return event.data as Ended;
  }
  if (signal.aborted) return undefined;
  // The stream began after the last event (`after`), so the end is read from the job.
  const { job_id, state, error } = await client.get(jobId);
  return { job_id, state, ...error };
}

/** Writes the text of the answer, and nothing else, to standard output. */
export async function followText(
  client: OrchdClient,
  jobId: string,
  options: FollowOptions,
): Promise<Ended | undefined> {
  const answer = new Answer(options.terminal);
  const progress = new Progress(client, jobId, options.terminal);
  /** The attempt that the last numbered event belongs to. */
  let followed: number | undefined;
  progress.start();
  try {
    const ended = await follow(client, jobId, options, async ({ id, event, data }) => {
      if (id !== undefined) followed = Number.parseInt(id, 10);
      if (event === 'token') {
        progress.stop();
        await answer.write((data as { t: string }).t);
      } else if (event === 'reset') {
        const hadText = answer.written;
        await answer.endLine();
        progress.stop();
        const { attempt } = data as { attempt: number };
        const attempts = attempt === followed ? [] : await attemptsOf(client, jobId);
        options.terminal.complain(resetText(attempt, followed, attempts, hadText));
        progress.start();
      }
    });
    progress.stop();
    // Not every backend streams, and of a job that ended long ago only the result is stored.
    if (ended?.state === 'succeeded' && !answer.written) await answer.write(resultText(ended.result));
    await answer.endLine();
    return ended;
  } finally {
    progress.stop();
  }
}

/** The attempts only add a reason to a message: without them it is shown all the same. */
async function attemptsOf(client: OrchdClient, jobId: string): Promise<readonly AttemptView[]> {
  try {
    return (await client.get(jobId)).attempts;
  } catch {
    return [];
  }
}

/** `attempt`: the one whose events come next; `followed`: the one whose events came before. */
export function resetText(
  attempt: number,
  followed: number | undefined,
  attempts: readonly AttemptView[],
  hadText: boolean,
): string {
  const discard = hadText ? '; discard the text above' : '';
  // The brain sends the number of the same attempt where it no longer has all of its events.
  if (attempt === followed) return `orchd: a part of the answer was lost on the way${discard}`;
  const former =
    attempts.find((each) => each.attempt === followed) ?? attempts.findLast((each) => each.attempt < attempt);
  const name = `attempt ${former?.attempt ?? followed ?? attempt - 1}`;
  return `orchd: ${name} ${endOfAttempt(former)}; a new attempt begins${discard}`;
}

function endOfAttempt(attempt: AttemptView | undefined): string {
  if (attempt?.error) return `failed (${oneLine(attempt.error.message)})`;
  if (attempt?.outcome !== undefined) return oneLine(attempt.outcome);
  return attempt?.state === 'abandoned' ? 'was lost' : 'has ended without an answer';
}

/** Returns the exit code for a job that has ended; prints why it failed on standard error. */
export function reportEnd(ended: Ended, terminal: Terminal): number {
  if (ended.state === 'succeeded') return EXIT.ok;
  terminal.complain(endText(ended));
  return EXIT.problems;
}

export function endText({ job_id: id, state, code, message, reason, retriable }: Ended): string {
  // The job was redriven after the event of its end.
  if (!isTerminal(state)) return `orchd: job ${id} is ${state} again; follow it without --after.`;
  const what = state === 'cancelled' ? 'was cancelled' : 'failed';
  if (code === undefined || state === 'cancelled') return `orchd: job ${id} ${what}.`;
  const advice = adviceFor({ code, retriable }, state) ?? nextStep({ job_id: id, state });
  const text = `orchd: job ${id} ${what}: ${harmless(message ?? '')} (${codeText({ code, reason })})`;
  return advice === undefined ? text : `${text}\n${advice}`;
}
