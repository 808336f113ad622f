/** `orchd redrive ID…` */
import type { Command } from '../command.ts';
import { forEachJob } from '../for-each-job.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { placeText } from '../text/job-text.ts';

export const redrive: Command = {
  usage: usageOf({
    call: 'redrive ID… [OPTIONS]',
    about: 'Queues the given dead jobs again, with a new deadline and their number of tries back at 0.',
    options: SERVER_OPTIONS,
    examples: [
      'orchd redrive $ID',
      'orchd jobs --state dead --all --json | jq -r .job_id | xargs orchd redrive',
    ],
  }),
  options: SERVER_OPTIONS,
  run: (args, terminal) =>
    forEachJob(
      {
        name: 'redrive',
        send: (client, id) => client.redrive(id),
        describe: (job) => [`${job.job_id} is ${job.state} again`, placeText(job)].filter(Boolean).join(', '),
      },
      args,
      terminal,
    ),
};
