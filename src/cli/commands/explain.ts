/** `orchd explain ID` */
import { type Command, EXIT } from '../command.ts';
import { flagOf, jobId, onlyWord } from '../given.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { explainText, nextStep } from '../text/job-text.ts';

export const explain: Command = {
  usage: usageOf({
    call: 'explain ID [OPTIONS]',
    about: 'Says in a sentence why a job waits, or that it does not.',
    options: SERVER_OPTIONS,
    examples: ['orchd explain $ID', 'orchd explain $ID --json | jq -r .waiting.code'],
  }),
  options: SERVER_OPTIONS,
  async run(given, terminal) {
    const id = jobId(onlyWord(given.positionals, 'job'));
    const job = await connect(given).get(id);
    if (flagOf(given.values, 'json')) {
      const { job_id, state, waiting, queue_position, predicted_start_ms } = job;
      terminal.print(
        JSON.stringify({ job_id, state, waiting: waiting ?? null, queue_position, predicted_start_ms }),
      );
      return EXIT.ok;
    }
    const next = nextStep(job);
    terminal.print(explainText(job, Date.now()) + (next === undefined ? '' : `\n${next}`));
    return EXIT.ok;
  },
};
