/** Follows a job to its end, as text or as events. */
import type { OrchdClient, TaskEvent } from '../client/client.ts';
import { isTerminal, type JobState } from '../model/states.ts';
import { EXIT, type Terminal } from './command.ts';
import { Answer } from './text/answer.ts';
import { adviceFor, resultText } from './text/job-text.ts';
import { Progress } from './text/progress.ts';
import { harmless } from './text/screen.ts';

/** How a job ended, as its last event says it. */
export interface Ended {
  readonly job_id: string;
  readonly state: JobState;
  readonly result?: unknown;
  readonly code?: string;
  readonly message?: string;
}

export interface FollowHow {
  readonly signal: AbortSignal;
  readonly terminal: Terminal;
  readonly after?: string | undefined;
}

/** Its events, with what happens to the connection told on standard error; undefined when interrupted. */
export async function follow(
  client: OrchdClient,
  jobId: string,
  how: FollowHow,
  hear: (event: TaskEvent) => void | Promise<void>,
): Promise<Ended | undefined> {
  const { signal, terminal, after } = how;
  let lost = false;
  const onReconnect = (): void => {
    if (!lost) terminal.complain('orchd: the connection was lost; trying again');
    lost = true;
  };
  const events = client.events(jobId, { signal, onReconnect, ...(after !== undefined && { after }) });
  for await (const event of events) {
    lost = false;
    await hear(event);
    if (event.event === 'end' || event.event === 'error') return event.data as Ended;
  }
  if (signal.aborted) return undefined;
  // The caller had heard the end before: it is read instead.
  const { job_id, state, error } = await client.get(jobId);
  return { job_id, state, ...error };
}

/** Writes the text of the answer, and nothing else, to standard output. */
export async function followText(
  client: OrchdClient,
  jobId: string,
  how: FollowHow,
): Promise<Ended | undefined> {
  const answer = new Answer();
  const progress = new Progress(client, jobId);
  progress.start();
  try {
    const ended = await follow(client, jobId, how, async ({ event, data }) => {
      if (event === 'token') {
        progress.stop();
        await answer.write((data as { t: string }).t);
      } else if (event === 'reset') {
        await answer.endLine();
        how.terminal.complain('orchd: that attempt was lost; the text above is void, a new attempt begins');
        progress.start();
      }
    });
    progress.stop();
    // Not every backend streams, and what has ended long ago is kept as its result only.
    if (ended?.state === 'succeeded' && !answer.written) await answer.write(resultText(ended.result));
    await answer.endLine();
    return ended;
  } finally {
    progress.stop();
  }
}

/** The exit code of a job, and on standard error why it failed. */
export function tellEnd(ended: Ended, terminal: Terminal): number {
  if (ended.state === 'succeeded') return EXIT.ok;
  terminal.complain(endText(ended));
  return EXIT.problems;
}

export function endText({ job_id: id, state, code, message }: Ended): string {
  // Redriven after the end that the caller had heard.
  if (!isTerminal(state)) return `orchd: job ${id} is ${state} again; follow it without --after.`;
  const what = state === 'cancelled' ? 'was cancelled' : 'failed';
  if (code === undefined || state === 'cancelled') return `orchd: job ${id} ${what}.`;
  const advice = adviceFor(code);
  const said = `orchd: job ${id} ${what}: ${harmless(message ?? '')} (${code})`;
  return advice === undefined ? said : `${said}\n${advice}`;
}
