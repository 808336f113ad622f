/** `orchd runs pause|resume RUN…` */
import type { RunView } from '../../model/http/runs.ts';
import { flagOf, jobId, oneOf } from '../arguments.ts';
import { type Command, EXIT, UsageError } from '../command.ts';
import { forJob } from '../job-id.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const WORDS = ['pause', 'resume'] as const;

const options = { ...SERVER_OPTIONS } as const;

export const runs: Command = {
  usage: usageOf({
    call: 'runs pause RUN… | runs resume RUN… [OPTIONS]',
    about: `pause: a run of an agent starts nothing new. Calls that run already go on to their end, and what they return is kept. The
deadline of a run is not moved.
resume: it goes on from there. \`orchd cancel\` ends a run, paused or not.`,
    options,
    examples: ['orchd runs pause $RUN', 'orchd runs resume $RUN'],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...ids] = args.positionals;
    if (word === undefined) throw new UsageError(`the action is missing: ${WORDS.join(' or ')}.`);
    const order = oneOf(word, 'the action', WORDS);
    if (ids.length === 0) throw new UsageError('the id of the run is missing.');
    const client = connect(args);
    for (const id of ids.map(jobId)) {
      const run = await forJob(client, id, (whole) => client.orderRun(whole, order));
      if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(run));
      else terminal.print(textOf(run));
    }
    return EXIT.ok;
  },
};

function textOf({ run_id: id, state, waits_for: below = [] }: RunView): string {
  if (state !== 'paused') return `${oneLine(id)} goes on: it is ${state}.`;
  const running = below.filter((job) => job.state === 'running' || job.state === 'claimed').length;
  const calls = running === 1 ? '1 call goes' : `${running} calls go`;
  return `${oneLine(id)} is paused${running > 0 ? `; ${calls} on to the end` : ''}.`;
}
