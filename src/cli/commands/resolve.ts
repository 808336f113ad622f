/** `orchd resolve ID --as …` */
import type { ResolveRequest } from '../../model/submit.ts';
import { type Command, EXIT, type Given, UsageError } from '../command.ts';
import { choiceOf, flagOf, jobId, onlyWord, textOf } from '../given.ts';
import { jsonOf } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';

const AS = ['retry', 'failed', 'succeeded'] as const;

const options = {
  as: { type: 'string', choices: AS, says: 'what it shall count as' },
  result: { type: 'string', value: 'JSON|@FILE|-', says: 'its result, with --as succeeded' },
  message: { type: 'string', value: 'TEXT', says: 'what to say of it, with --as failed' },
  ...SERVER_OPTIONS,
} as const;

export const resolve: Command = {
  usage: usageOf({
    call: 'resolve ID --as retry|failed|succeeded [OPTIONS]',
    about: `A stale job may have run, and been paid for, without orchd knowing. Find out, then say how it shall count:
retry runs it again, failed ends it as dead, succeeded ends it with the result you give.`,
    options,
    examples: [
      'orchd resolve $ID --as retry',
      `orchd resolve $ID --as succeeded --result '{"text": "found in the account of the provider"}'`,
    ],
  }),
  options,
  async run(given, terminal) {
    const id = jobId(onlyWord(given.positionals, 'job'));
    const how = await howOf(given);
    const job = await connect(given).resolve(id, how);
    terminal.print(
      flagOf(given.values, 'json') ? JSON.stringify(job) : `${id} is settled: it is ${job.state} now.`,
    );
    return EXIT.ok;
  },
};

async function howOf({ values }: Given): Promise<ResolveRequest> {
  const as = choiceOf(values, 'as', AS);
  const result = textOf(values, 'result');
  const message = textOf(values, 'message');
  if (as === undefined) throw new UsageError(`as what? --as ${AS.join('|')}`);
  if (result !== undefined && as !== 'succeeded') throw new UsageError('--result goes with --as succeeded.');
  if (message !== undefined && as !== 'failed') throw new UsageError('--message goes with --as failed.');
  if (as === 'retry') return { as };
  if (as === 'failed') return message === undefined ? { as } : { as, message };
  return result === undefined ? { as } : { as, result: await jsonOf('--result', result) };
}
