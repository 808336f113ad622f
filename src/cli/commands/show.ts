/** `orchd show ID` */

import { flagOf, jobId, singlePositional } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { forJob } from '../job-id.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { jobText } from '../text/job-page.ts';

const options = {
  payload: { type: 'boolean', help: 'print what was asked even if it has more than 4 KiB' },
  ...SERVER_OPTIONS,
} as const;

export const show: Command = {
  usage: usageOf({
    call: 'show ID [OPTIONS]',
    about: `Prints the fields of a job, what was asked, its attempts, its tokens and cost, its error and its result.
Exit code: 0 in whatever state the job is, 1 if there is no such job.`,
    options,
    examples: ['orchd show $ID', 'orchd show $ID --json | jq .result'],
  }),
  options,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'job id'));
    const client = connect(args);
    const withPayload = flagOf(args.values, 'payload');
    const parts = withPayload ? ({ include: 'payload' } as const) : {};
    const job = await forJob(client, id, (whole) => client.get(whole, parts));
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(job));
    else {
      const currency = job.cost === undefined ? '' : (await client.capabilities()).currency;
      terminal.print(jobText(job, terminal, Date.now(), { currency, withPayload }));
    }
    return EXIT.ok;
  },
};
