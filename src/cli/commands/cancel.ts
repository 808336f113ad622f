/** `orchd cancel ID…`, or all jobs that match a filter */
import type { JobView } from '../../model/http/jobs.ts';
import type { Command } from '../command.ts';
import { forEachJob } from '../for-each-job.ts';
import { isBulk, runBulk } from '../for-matching-jobs.ts';
import { BULK_OPTIONS } from '../job-filter.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';

const options = { ...BULK_OPTIONS, ...SERVER_OPTIONS } as const;

export const cancel: Command = {
  usage: usageOf({
    call: 'cancel ID… | FILTERS [OPTIONS]',
    about: `Cancels the given jobs, or all live jobs that match the filters. It can be repeated; a job that has already ended is not
changed. With filters it first shows how many jobs match, and asks; where nobody can be asked it needs --yes.`,
    options,
    examples: [
      'orchd cancel $ID',
      'orchd cancel --batch $BATCH --dry-run',
      'orchd cancel --agent nightly --state queued --yes',
    ],
  }),
  options,
  run: (args, terminal) =>
    isBulk(args)
      ? runBulk(
          {
            name: 'cancel',
            done: 'cancelled, or being cancelled',
            which: 'live',
            send: (client, command) => client.cancelMany(command),
          },
          args,
          terminal,
        )
      : forEachJob(
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
