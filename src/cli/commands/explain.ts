/** `orchd explain ID` */

import { flagOf, jobId, singlePositional } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { forJob } from '../job-id.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { explainText, nextStep } from '../text/job-text.ts';

export const explain: Command = {
  usage: usageOf({
    call: 'explain ID [OPTIONS]',
    about: 'Prints one sentence: why the job waits, or that it does not wait.',
    options: SERVER_OPTIONS,
    examples: ['orchd explain $ID', 'orchd explain $ID --json | jq -r .waiting.code'],
  }),
  options: SERVER_OPTIONS,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'job id'));
    const client = connect(args);
    const job = await forJob(client, id, (whole) => client.get(whole));
    if (flagOf(args.values, 'json')) {
      const { job_id, state, waiting, queue_position, predicted_start_ms } = job;
      terminal.printData(
        JSON.stringify({ job_id, state, waiting: waiting ?? null, queue_position, predicted_start_ms }),
      );
      return EXIT.ok;
    }
    const next = nextStep(job);
    terminal.print(explainText(job, Date.now()) + (next === undefined ? '' : `\n${next}`));
    return EXIT.ok;
  },
};
