/** `orchd results BATCH` */
import { type BatchResult, ClientError, type OrchdClient } from '../../client/client.ts';
import type { BatchView } from '../../model/http/batches.ts';
import { isTerminal, JOB_STATES } from '../../model/states.ts';
import { batchId, choiceOf, flagOf, oneOf, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { counted, liveText, Meter } from '../text/meter.ts';

const FORMATS = ['jsonl', 'csv'] as const;
const ENDED = JOB_STATES.filter(isTerminal);

const { url, token } = SERVER_OPTIONS;
const options = {
  format: { type: 'string', choices: FORMATS, help: 'by default jsonl: one JSON object per line' },
  output: { type: 'string', value: 'FILE', help: 'write to this file, which appears when it is complete' },
  state: {
    type: 'string',
    value: 'STATE',
    choices: ENDED,
    help: 'only jobs in this state; separate several states with commas',
  },
  payload: { type: 'boolean', help: 'print what was asked, too' },
  'only-result': {
    type: 'boolean',
    help: 'with jsonl: print only the result of each job; null if it has none',
  },
  wait: { type: 'boolean', help: 'first wait until all jobs have ended' },
  url,
  token,
} as const;

export const results: Command = {
  usage: usageOf({
    call: 'results BATCH [OPTIONS]',
    about: `Prints the jobs of a batch that have ended, with their results, in the order of the file that they were submitted from.
After a lost connection it goes on where it was. CSV has the columns line, job_id, state, model, text, result (empty
if the text is all of it), error_code, error_message, failed_tries, duration_ms (of the last try) and, with --payload,
payload; a text that a spreadsheet would run as a formula gets an apostrophe before it.
Exit code: 0 if all jobs have ended, 3 if some have not.`,
    options,
    examples: [
      'orchd results $BATCH --wait --format csv --output answers.csv',
      'orchd results $BATCH --only-result | jq -r .text',
      'orchd results $BATCH --state dead | jq -r .error.message | sort | uniq -c',
    ],
  }),
  options,
  async run(args, terminal) {
    const id = batchId(singlePositional(args.positionals, 'batch'));
    const how = howOf(args);
    const client = connect(args);
    let batch = await batchOf(client, id);
    if (how.waits && batch.live_jobs > 0) {
      const { waitForIds } = await import('../batch/wait-for.ts');
      const code = await waitForIds(client, [id], { command: 'results' }, terminal);
      if (code === EXIT_INTERRUPTED) return code;
      batch = await client.batch(id);
    }
    return print(client, batch, how, terminal);
  },
};

async function batchOf(client: OrchdClient, id: string): Promise<BatchView> {
  try {
    return await client.batch(id);
  } catch (error) {
    if (!(error instanceof ClientError) || error.code !== 'NOT_FOUND') throw error;
    const { UnknownId } = await import('../refusal.ts');
    throw new UnknownId(`there is no batch "${id}"`, '`orchd batches` lists the batches.');
  }
}

interface How {
  readonly format: (typeof FORMATS)[number];
  readonly output: string | undefined;
  readonly state: string;
  readonly include: 'payload' | undefined;
  readonly onlyResult: boolean;
  readonly waits: boolean;
}

function howOf({ values }: CliArguments): How {
  const format = choiceOf(values, 'format', FORMATS) ?? 'jsonl';
  const state = textOf(values, 'state');
  for (const each of state?.split(',') ?? []) oneOf(each.trim(), '--state', ENDED);
  const onlyResult = flagOf(values, 'only-result');
  const payload = flagOf(values, 'payload');
  if (format === 'csv' && onlyResult) throw new UsageError('--only-result is only for --format jsonl.');
  return {
    format,
    output: textOf(values, 'output'),
    state: state ?? ENDED.join(','),
    include: payload ? 'payload' : undefined,
    onlyResult,
    waits: flagOf(values, 'wait'),
  };
}

async function print(
  client: OrchdClient,
  { batch_id: id, live_jobs: live, jobs }: BatchView,
  how: How,
  terminal: Terminal,
): Promise<number> {
  const { LineOrder, lineOf } = await import('../batch/line-order.ts');
  const { outputTo } = await import('../batch/output.ts');
  const rowOf = await rowsOf(how);
  const output = await outputTo(how.output, terminal);
  const order = new LineOrder((text) => output.write(text));
  const interrupt = new Interrupt();
  const meter = new Meter(terminal);
  try {
    if (how.format === 'csv') await output.write(await csvHead(how));
    let read = 0;
    const { state, include } = how;
    const onReconnect = (): void => meter.update(() => 'the connection was lost; reconnecting');
    for await (const job of client.results(id, { state, include, signal: interrupt.signal, onReconnect })) {
      const line = lineOf(job.job_id, id);
      await order.add(line, rowOf(job, line));
      read++;
      if (how.output !== undefined)
        meter.update(() => `${counted(read, 'result')} of ${counted(jobs, 'job')}`);
    }
    if (interrupt.signal.aborted) return EXIT_INTERRUPTED;
    await order.end();
    await output.finish();
    meter.clear();
    return report(read, live, jobs, how, terminal);
  } finally {
    interrupt.remove();
    meter.clear();
    await order.close();
    // A finished file has another name.
    await output.discard();
  }
}

type RowOf = (job: BatchResult, line: number | undefined) => string;

const csvHead = async ({ include }: How): Promise<string> =>
  (await import('../batch/csv.ts')).csvHeader(include !== undefined);

async function rowsOf({ format, onlyResult, include }: How): Promise<RowOf> {
  if (format === 'csv') {
    const { csvRow } = await import('../batch/csv.ts');
    return (job, line) => csvRow(job, line, include !== undefined);
  }
  if (onlyResult) return ({ result = null }) => `${JSON.stringify(result)}\n`;
  return ({ n: _, ...job }, line) => `${JSON.stringify(line === undefined ? job : { line, ...job })}\n`;
}

function report(read: number, live: number, jobs: number, { output }: How, terminal: Terminal): number {
  if (output !== undefined) terminal.complain(`${output}: ${counted(read, 'result')}.`);
  if (live === 0) return EXIT.ok;
  terminal.complain(`${liveText(live, jobs)}; --wait waits for ${live === 1 ? 'it' : 'them'}.`);
  return EXIT.unfinished;
}
