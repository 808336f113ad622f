/** `orchd redrive ID…` */
import type { Command } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { giveToAll } from '../orders.ts';
import { placeText } from '../text/job-text.ts';

export const redrive: Command = {
  usage: usageOf({
    call: 'redrive ID… [OPTIONS]',
    about: 'Queues dead jobs again; their tries start anew.',
    options: SERVER_OPTIONS,
    examples: [
      'orchd redrive $ID',
      'orchd jobs --state dead --all --json | jq -r .job_id | xargs orchd redrive',
    ],
  }),
  options: SERVER_OPTIONS,
  run: (given, terminal) =>
    giveToAll(
      {
        name: 'redrive',
        give: (client, id) => client.redrive(id),
        say: (job) => [`${job.job_id} is ${job.state} again`, placeText(job)].filter(Boolean).join(', '),
      },
      given,
      terminal,
    ),
};
