/** `orchd show ID` */
import { type Command, EXIT } from '../command.ts';
import { flagOf, jobId, onlyWord } from '../given.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { jobText } from '../text/job-page.ts';

export const show: Command = {
  usage: usageOf({
    call: 'show ID [OPTIONS]',
    about: 'Exit code: 0 whatever became of the job, 1 when there is no such job.',
    options: SERVER_OPTIONS,
    examples: ['orchd show $ID', 'orchd show $ID --json | jq .result'],
  }),
  options: SERVER_OPTIONS,
  async run(given, terminal) {
    const id = jobId(onlyWord(given.positionals, 'job'));
    const job = await connect(given).get(id);
    terminal.print(flagOf(given.values, 'json') ? JSON.stringify(job) : jobText(job, terminal, Date.now()));
    return EXIT.ok;
  },
};
