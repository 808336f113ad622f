/** One order for many jobs: each gets it, whatever became of the others. */
import { ClientError, type OrchdClient } from '../client/client.ts';
import type { JobView } from '../model/http/jobs.ts';
import { EXIT, type Given, type Terminal } from './command.ts';
import { flagOf, jobIds } from './given.ts';
import { isUnreachable, refusalOf } from './refusal.ts';
import { connect } from './remote.ts';

export interface Order {
  readonly name: string;
  give(client: OrchdClient, id: string): Promise<JobView>;
  /** What to say of a job that took it. */
  say(job: JobView): string;
}

export async function giveToAll(order: Order, given: Given, terminal: Terminal): Promise<number> {
  const ids = jobIds(given.positionals);
  const client = connect(given);
  const asJson = flagOf(given.values, 'json');
  let worst: number = EXIT.ok;
  for (const id of ids) {
    try {
      const job = await order.give(client, id);
      terminal.print(asJson ? JSON.stringify(job) : order.say(job));
    } catch (error) {
      if (!(error instanceof ClientError) || isUnreachable(error)) throw error;
      const { text, code } = refusalOf(error);
      terminal.complain(`orchd ${order.name} ${id}: ${text}`);
      worst = Math.max(worst, code);
    }
  }
  return worst;
}
