/** `orchd batches` */
import type { BatchView } from '../../model/http/batches.ts';
import { flagOf, listOf, noPositionals, wholeOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { durationText } from '../text/duration.ts';
import { tableText } from '../text/table.ts';

const DEFAULT_LIMIT = 50;

const options = {
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'only batches with this tag' },
  limit: { type: 'string', value: 'N', help: `list the N that changed last; by default ${DEFAULT_LIMIT}` },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line' },
} as const;

export const batches: Command = {
  usage: usageOf({
    call: 'batches [OPTIONS]',
    about: 'Lists batches, the last changed first, with the number of their jobs by state.',
    options,
    examples: ['orchd batches', 'orchd batches --tag project=survey --json | jq -r .batch_id'],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { values } = args;
    const limit = wholeOf(values, 'limit', 1, 1000) ?? DEFAULT_LIMIT;
    const list = await connect(args).batches({ tag: listOf(values, 'tag'), limit });
    if (flagOf(values, 'json')) for (const batch of list) terminal.printData(JSON.stringify(batch));
    else if (list.length === 0) terminal.complain('no batches match.');
    else terminal.print(batchTable(list, terminal, Date.now()));
    return EXIT.ok;
  },
};

const HEADINGS = ['BATCH', 'JOBS', 'LIVE', 'SUCCEEDED', 'DEAD', 'CANCELLED', 'AGE', 'LEFT', 'NAME'];

export function batchTable(list: readonly BatchView[], terminal: Terminal, now: number): string {
  const rows = list.map(({ batch_id, name, created_at, jobs, live_jobs, counts, predicted_end_ms }) => [
    batch_id,
    ...[jobs, live_jobs, counts.succeeded, counts.dead, counts.cancelled].map(String),
    durationText(now - created_at),
    live_jobs === 0 ? '-' : predicted_end_ms === undefined ? '?' : durationText(predicted_end_ms),
    name ?? '',
  ]);
  return tableText(HEADINGS, rows, { width: terminal.isPerson ? terminal.columns || undefined : undefined });
}
