/** `orchd resolve ID --as …` */
import type { ResolveRequest } from '../../model/submit.ts';
import { choiceOf, flagOf, jobId, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, UsageError } from '../command.ts';
import { forJob } from '../job-id.ts';
import { jsonOf } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';

const AS = ['retry', 'failed', 'succeeded'] as const;

const options = {
  as: { type: 'string', choices: AS, help: 'the outcome to record' },
  result: { type: 'string', value: 'JSON|@FILE|-', help: 'the result of the job; only with --as succeeded' },
  message: { type: 'string', value: 'TEXT', help: 'the error message of the job; only with --as failed' },
  ...SERVER_OPTIONS,
} as const;

export const resolve: Command = {
  usage: usageOf({
    call: 'resolve ID --as retry|failed|succeeded [OPTIONS]',
    about: `Decides the outcome of a stale job. Such a job may have run, and may have cost money, without orchd knowing it: find out
first. retry runs it again, failed ends it as dead, succeeded ends it with the result you give.`,
    options,
    examples: [
      'orchd resolve $ID --as retry',
      `orchd resolve $ID --as succeeded --result '{"text": "found in the account of the provider"}'`,
    ],
  }),
  options,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'job id'));
    const request = await requestOf(args);
    const client = connect(args);
    const job = await forJob(client, id, (whole) => client.resolve(whole, request));
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(job));
    else terminal.print(`${job.job_id} is resolved: it is ${job.state} now.`);
    return EXIT.ok;
  },
};

async function requestOf({ values }: CliArguments): Promise<ResolveRequest> {
  const as = choiceOf(values, 'as', AS);
  const result = textOf(values, 'result');
  const message = textOf(values, 'message');
  if (as === undefined) throw new UsageError(`the outcome is missing: --as ${AS.join('|')}`);
  if (result !== undefined && as !== 'succeeded')
    throw new UsageError('--result is only for --as succeeded.');
  if (message !== undefined && as !== 'failed') throw new UsageError('--message is only for --as failed.');
  if (as === 'retry') return { as };
  if (as === 'failed') return message === undefined ? { as } : { as, message };
  return result === undefined ? { as } : { as, result: await jsonOf('--result', result) };
}
