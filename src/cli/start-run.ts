/** Starts runs of agents for the command line, and tells how they have ended. */
import { ClientError, type OrchdClient, type RunRequest } from '../client/client.ts';
import type { StartedRun } from '../model/http/runs.ts';
import { EXIT, type Terminal } from './command.ts';
import type { RunEnd } from './follow-run.ts';
import { UnknownId } from './refusal.ts';
import { codeText } from './text/job-text.ts';
import { oneLine } from './text/screen.ts';

/** Starts a run, also over a lost connection. */
export async function startRun(
  client: OrchdClient,
  name: string,
  request: RunRequest,
  terminal: Terminal,
): Promise<StartedRun> {
  let isLost = false;
  const onReconnect = (): void => {
    if (!isLost) terminal.complain('orchd: the connection was lost; reconnecting');
    isLost = true;
  };
  try {
    return await client.startRun(name, request, { onReconnect });
  } catch (error) {
    if (!(error instanceof ClientError) || error.code !== 'NOT_FOUND') throw error;
    throw new UnknownId(error.message, '`orchd agents` lists the agents.');
  }
}

/** Tells that a run has no answer, and why; returns the exit code. */
export function reportRun({ run_id: id, state, error }: RunEnd, terminal: Terminal): number {
  if (!error) return EXIT.ok;
  if (state === 'cancelled') terminal.complain(`orchd: run ${oneLine(id)} was cancelled.`);
  else terminal.complain(`orchd: run ${oneLine(id)} failed: ${oneLine(error.message)} (${codeText(error)})`);
  return EXIT.problems;
}
