/** Follows a job to its end, as text or as events. */
import type { OrchdClient, TaskEvent } from '../client/client.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import { EXIT, type Terminal } from './command.ts';
import { Answer } from './text/answer.ts';
import { adviceFor, codeText, nextStep, resultText } from './text/job-text.ts';
import { Progress } from './text/progress.ts';
import { harmless } from './text/screen.ts';

/** The end of a job: the data of its last event. */
export interface Ended {
  readonly job_id: string;
  readonly state: JobState;
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
  readonly reason?: string;
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
  progress.start();
  try {
    const ended = await follow(client, jobId, options, async ({ event, data }) => {
      if (event === 'token') {
        progress.stop();
        await answer.write((data as { t: string }).t);
      } else if (event === 'reset') {
        await answer.endLine();
        options.terminal.complain(
          'orchd: that attempt was lost; discard the text above: a new attempt begins',
        );
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

/** Returns the exit code for a job that has ended; prints why it failed on standard error. */
export function reportEnd(ended: Ended, terminal: Terminal): number {
  if (ended.state === 'succeeded') return EXIT.ok;
  terminal.complain(endText(ended));
  return EXIT.problems;
}

export function endText({ job_id: id, state, code, message, reason }: Ended): string {
  // The job was redriven after the event of its end.
  if (!isTerminal(state)) return `orchd: job ${id} is ${state} again; follow it without --after.`;
  const what = state === 'cancelled' ? 'was cancelled' : 'failed';
  if (code === undefined || state === 'cancelled') return `orchd: job ${id} ${what}.`;
  const advice = adviceFor(code, state) ?? nextStep({ job_id: id, state });
  const text = `orchd: job ${id} ${what}: ${harmless(message ?? '')} (${codeText({ code, reason })})`;
  return advice === undefined ? text : `${text}\n${advice}`;
}
