/** `orchd cancel ID…` */
import type { JobView } from '../../model/http/jobs.ts';
import type { Command } from '../command.ts';
import { forEachJob } from '../for-each-job.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';

export const cancel: Command = {
  usage: usageOf({
    call: 'cancel ID… [OPTIONS]',
    about: 'Cancels the given jobs. It can be repeated; a job that has already ended is not changed.',
    options: SERVER_OPTIONS,
    examples: [
      'orchd cancel $ID',
      'orchd jobs --agent nightly --state queued --json | jq -r .job_id | xargs orchd cancel',
    ],
  }),
  options: SERVER_OPTIONS,
  run: (args, terminal) =>
    forEachJob(
      { name: 'cancel', send: (client, id) => client.cancel(id), describe: cancelText },
      args,
      terminal,
    ),
};

export function cancelText({ job_id: id, state, cancel_requested: cancelRequested }: JobView): string {
  if (state === 'cancelled') return `${id} is cancelled.`;
  if (cancelRequested) return `${id} is being cancelled; its backend has not confirmed yet.`;
  return `${id} had already ended (${state}).`;
}
