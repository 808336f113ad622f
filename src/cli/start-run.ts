/** Starts runs of agents for the command line, and tells how they have ended. */
import type { OrchdClient, RunRequest } from '../client/client.ts';
import type { StartedRun } from '../model/http/runs.ts';
import { EXIT, type Terminal } from './command.ts';
import type { RunEnd } from './follow-run.ts';
import { listedBy } from './refusal.ts';
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
  return listedBy('`orchd agents` lists the agents.', client.startRun(name, request, { onReconnect }));
}

/** Tells that a run has no answer, and why; returns the exit code. */
export function reportRun({ run_id: id, state, error }: RunEnd, terminal: Terminal): number {
  if (!error) return EXIT.ok;
  if (state === 'cancelled') terminal.complain(`orchd: run ${oneLine(id)} was cancelled.`);
  else terminal.complain(`orchd: run ${oneLine(id)} failed: ${oneLine(error.message)} (${codeText(error)})`);
  return EXIT.problems;
}
