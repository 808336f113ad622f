/** `orchd redrive ID…`, or all jobs that match a filter */
import type { Command } from '../command.ts';
import { forEachJob } from '../for-each-job.ts';
import { isBulk, runBulk } from '../for-matching-jobs.ts';
import { BULK_OPTIONS } from '../job-filter.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { placeText } from '../text/job-text.ts';

const options = { ...BULK_OPTIONS, ...SERVER_OPTIONS } as const;

export const redrive: Command = {
  usage: usageOf({
    call: 'redrive ID… | FILTERS [OPTIONS]',
    about: `Queues the given dead jobs, or all dead jobs that match the filters, again: with a new deadline and their number of tries
back at 0. With filters it first shows how many jobs match, and asks; where nobody can be asked it needs --yes.`,
    options,
    examples: [
      'orchd redrive $ID',
      'orchd redrive --batch $BATCH',
      'orchd redrive --tag project=survey --yes',
    ],
  }),
  options,
  run: (args, terminal) =>
    isBulk(args)
      ? runBulk(
          {
            name: 'redrive',
            done: 'queued again',
            which: 'dead',
            send: (client, command) => client.redriveMany(command),
          },
          args,
          terminal,
        )
      : forEachJob(
          {
            name: 'redrive',
            send: (client, id) => client.redrive(id),
            describe: (job) =>
              [`${job.job_id} is ${job.state} again`, placeText(job)].filter(Boolean).join(', '),
          },
          args,
          terminal,
        ),
};
