/** Sends one request per job; a job that is refused does not keep the others from getting theirs. */
import { ClientError, type OrchdClient } from '../client/client.ts';
import type { JobView } from '../model/http/jobs.ts';
import { flagOf, jobIds } from './arguments.ts';
import { type CliArguments, EXIT, type Terminal } from './command.ts';
import { AmbiguousId, forJob } from './job-id.ts';
import { isUnreachable, refusalOf } from './refusal.ts';
import { connect } from './remote.ts';

export interface JobRequest {
  /** The name of the command, for error messages. */
  readonly name: string;
  send(client: OrchdClient, id: string): Promise<JobView>;
  /** The text to print about a job after the request. */
  describe(job: JobView): string;
}

/** Returns the highest exit code of all requests. */
export async function forEachJob(
  { name, send, describe }: JobRequest,
  args: CliArguments,
  terminal: Terminal,
): Promise<number> {
  const ids = jobIds(args.positionals);
  const client = connect(args);
  const asJson = flagOf(args.values, 'json');
  let worst: number = EXIT.ok;
  for (const id of ids) {
    try {
      const job = await forJob(client, id, (whole) => send(client, whole));
      if (asJson) terminal.printData(JSON.stringify(job));
      else terminal.print(describe(job));
    } catch (error) {
      const isOfThisJob = error instanceof AmbiguousId || error instanceof ClientError;
      if (!isOfThisJob || isUnreachable(error)) throw error;
      const { text, code } = refusalOf(error);
      terminal.complain(`orchd ${name} ${id}: ${text}`);
      worst = Math.max(worst, code);
    }
  }
  return worst;
}
