/** `orchd wait ID…` */
import { batchId, durationOf } from '../arguments.ts';
import { type Command, UsageError } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';

const { url, token } = SERVER_OPTIONS;
const options = {
  timeout: { type: 'string', value: 'DURATION', help: 'the longest time to wait, such as 90s, 10m or 2h' },
  url,
  token,
} as const;

export const wait: Command = {
  usage: usageOf({
    call: 'wait ID… [OPTIONS]',
    about: `Waits until the given batches and jobs have ended, and shows how far they are. It survives a restart of the server.
Exit code: 0 if all jobs succeeded, 1 if some are dead or cancelled, 124 if the time of --timeout has passed.`,
    options,
    examples: ['orchd wait $BATCH', 'orchd wait $BATCH --timeout 2h && orchd results $BATCH > answers.jsonl'],
  }),
  options,
  async run(args, terminal) {
    const timeoutMs = durationOf(args.values, 'timeout');
    if (args.positionals.length === 0) throw new UsageError('the id is missing: give batches or jobs.');
    const ids = [...new Set(args.positionals.map(batchId))];
    const client = connect(args);
    const { waitForIds } = await import('../batch/wait-for.ts');
    return waitForIds(client, ids, { timeoutMs }, terminal);
  },
};
