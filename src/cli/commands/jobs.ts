/** `orchd jobs` */
import type { OrchdClient } from '../../client/client.ts';
import type { JobView } from '../../model/http/jobs.ts';
import type { ListRequest } from '../../model/submit.ts';
import { flagOf, noPositionals, wholeOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal } from '../command.ts';
import { FILTER_OPTIONS, jobFilterOf } from '../job-filter.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { durationText } from '../text/duration.ts';
import { paintedState, stateText, whereText } from '../text/job-text.ts';
import { paintState } from '../text/screen.ts';
import { tableText } from '../text/table.ts';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1_000_000;
/** The server returns at most this many jobs in one answer. */
const PAGE = 1000;

const options = {
  ...FILTER_OPTIONS,
  limit: { type: 'string', value: 'N', help: `list the newest N jobs; by default ${DEFAULT_LIMIT}` },
  all: { type: 'boolean', help: 'list all jobs' },
  ...SERVER_OPTIONS,
  json: {
    type: 'boolean',
    help: 'print one JSON object per line: the fields of `orchd show --json` without the result',
  },
} as const;

export const jobs: Command = {
  usage: usageOf({
    call: 'jobs [OPTIONS]',
    about: 'Lists jobs, newest first, with their state and with where they run or why they wait.',
    options,
    examples: [
      'orchd jobs',
      'orchd jobs --state queued,running --agent nightly',
      'orchd jobs --batch $BATCH --state dead',
      'orchd jobs --tag project=survey --all --json | jq -r .job_id',
    ],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const { request, most } = listRequestOf(args);
    const client = connect(args);
    const asJson = flagOf(args.values, 'json');
    const table: JobView[] = [];
    const { shown, more } = await eachPage(client, request, most, (page) => {
      if (asJson) for (const job of page) terminal.printData(JSON.stringify(job));
      else table.push(...page);
    });
    if (asJson) return EXIT.ok;
    if (shown === 0) terminal.complain('no jobs match.');
    else terminal.print(jobTable(table, terminal, Date.now()));
    if (more)
      terminal.complain(
        `there are more than these ${shown}: --limit N lists N jobs, --all lists all of them.`,
      );
    return EXIT.ok;
  },
};

function listRequestOf(args: CliArguments): { request: ListRequest; most: number } {
  const limit = wholeOf(args.values, 'limit', 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
  return {
    request: jobFilterOf(args),
    most: flagOf(args.values, 'all') ? Number.POSITIVE_INFINITY : limit,
  };
}

async function eachPage(
  client: OrchdClient,
  request: ListRequest,
  most: number,
  take: (jobs: readonly JobView[]) => void,
): Promise<{ shown: number; more: boolean }> {
  let shown = 0;
  let cursor: string | undefined;
  do {
    const limit = Math.min(PAGE, most - shown);
    const page = await client.list({ ...request, limit, ...(cursor !== undefined && { cursor }) });
    take(page.jobs);
    shown += page.jobs.length;
    cursor = page.cursor;
  } while (cursor !== undefined && shown < most);
  return { shown, more: cursor !== undefined };
}

const HEADINGS = ['ID', 'STATE', 'TYPE', 'PRIORITY', 'AGE', 'WHERE OR WHY'];
const STATE_COLUMN = HEADINGS.indexOf('STATE');

export function jobTable(list: readonly JobView[], terminal: Terminal, now: number): string {
  const rows = list.map((job) => [
    job.job_id,
    stateText(job),
    job.type,
    job.priority,
    durationText(now - job.created_at),
    whereText(job),
  ]);
  const paint = (column: number, row: number, cell: string): string =>
    column === STATE_COLUMN ? paintState(paintedState(list[row] as JobView), cell, terminal) : cell;
  return tableText(HEADINGS, rows, {
    width: terminal.isPerson ? terminal.columns || undefined : undefined,
    paint,
  });
}
