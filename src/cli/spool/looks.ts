/** The commands of `orchd spool` that look at a spool and change nothing. */
import type { SeenJob } from '../../spool/reads.ts';
import { flagOf, listOf, noPositionals } from '../arguments.ts';
import { EXIT, UsageError } from '../command.ts';
import { oneLine } from '../text/screen.ts';
import { tableText } from '../text/table.ts';
import { namedJob } from './named-job.ts';
import { openSpoolAt, spoolOptions } from './open.ts';
import type { SpoolAction } from './people.ts';

export const ls: SpoolAction = async (folder, rest, { values }, terminal) => {
  noPositionals(rest);
  const spool = await openSpoolAt(folder);
  const { findJobs, seeJob } = await import('../../spool/reads.ts');
  const { PLACE_FOLDERS } = await import('../../spool/layout.ts');
  const all = Object.keys(PLACE_FOLDERS) as (keyof typeof PLACE_FOLDERS)[];
  const chosen = listOf(values, 'in');
  const wrong = chosen.find((word) => !(all as string[]).includes(word));
  if (wrong !== undefined) throw new UsageError(`--in must be one of ${all.join(', ')}, not "${wrong}".`);
  const places = chosen.length === 0 ? all : all.filter((place) => chosen.includes(place));
  const seen: SeenJob[] = [];
  for await (const job of findJobs(spool, places)) seen.push(await seeJob(spool, job));
  if (flagOf(values, 'json')) for (const job of seen) terminal.printData(JSON.stringify(jsonOf(job)));
  else if (seen.length === 0) terminal.complain('no jobs.');
  else
    terminal.print(
      tableText(['job', 'place', 'attempts', 'retries', 'note'], seen.map(rowOf), {
        width: terminal.columns,
      }),
    );
  return EXIT.ok;
};

const jsonOf = ({ name, place, agent, lifecycle, problem }: SeenJob): object => ({
  name,
  place,
  agent,
  problem,
  ...lifecycle,
});

const rowOf = ({ name, place, agent, lifecycle, problem }: SeenJob): string[] => [
  name,
  place,
  String(lifecycle?.attempt ?? ''),
  lifecycle ? `${lifecycle.retry_count} of ${lifecycle.max_retries}` : '',
  problem ?? agent ?? lifecycle?.reason ?? '',
];

const FIELD_WIDTH = 16;

export const show: SpoolAction = async (folder, rest, { values }, terminal) => {
  const { spool, job } = await namedJob(folder, rest);
  const { readJobFile } = await import('../../spool/reads.ts');
  const [prompt, result] = [await readJobFile(spool, job, 'prompt'), await readJobFile(spool, job, 'result')];
  if (flagOf(values, 'json')) {
    terminal.printData(JSON.stringify({ ...jsonOf(job), prompt: parsed(prompt), result: parsed(result) }));
    return EXIT.ok;
  }
  const lines = [
    ['job', job.name],
    ['place', job.place],
    ['folder', job.folder],
    ...(job.agent === undefined ? [] : [['agent', job.agent]]),
    ...(job.problem === undefined ? [] : [['problem', job.problem]]),
    ...Object.entries(job.lifecycle ?? {}).map(([field, value]) => [field, String(value)]),
    ['prompt', prompt ?? 'cannot be read'],
    ...(result === undefined ? [] : [['result', result]]),
  ] as [string, string][];
  // What follows in a value of several lines cannot be taken for another field.
  for (const [field, value] of lines)
    terminal.print(field.padEnd(FIELD_WIDTH) + value.trim().replaceAll('\n', `\n${' '.repeat(FIELD_WIDTH)}`));
  return EXIT.ok;
};

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as unknown);
  } catch {
    return text;
  }
}

export const history: SpoolAction = async (folder, rest, { values }, terminal) => {
  const { spool, job } = await namedJob(folder, rest);
  const { readHistory } = await import('../../spool/reads.ts');
  const lines = await readHistory(spool, job);
  if (flagOf(values, 'json')) for (const line of lines) terminal.printData(JSON.stringify(line));
  else if (lines.length === 0) terminal.complain('nothing has happened to it yet.');
  else
    terminal.print(
      tableText(
        ['at', 'from', 'to', 'attempt', 'actor', 'reason'],
        lines.map(({ at, from, to, attempt, actor, reason }) => [
          at,
          from,
          to,
          String(attempt),
          actor,
          reason ?? '',
        ]),
        { width: terminal.columns },
      ),
    );
  return EXIT.ok;
};

export const check: SpoolAction = async (folder, rest, { values }, terminal) => {
  noPositionals(rest);
  const { isSpool, openSpool, spoolAt } = await import('../../spool/spool.ts');
  const { checkSpool } = await import('../../spool/invariants.ts');
  const { FINDINGS } = await import('../../spool/findings.ts');
  const options = await spoolOptions(folder);
  const spool = spoolAt(options);
  // A spool of which a folder is missing is checked; what never was one is refused as everywhere.
  if (!(await isSpool(spool))) await openSpool(options);
  const found = await checkSpool(spool);
  for (const { code, path, why } of found) {
    const { is, next } = FINDINGS[code];
    if (flagOf(values, 'json')) terminal.printData(JSON.stringify({ code, is, path, why, next }));
    else
      terminal.print(`${is}: ${oneLine(path)}: ${oneLine(why)}\n  ${next.replace('DIR', oneLine(folder))}`);
  }
  if (!flagOf(values, 'json'))
    terminal.complain(found.length === 0 ? 'everything is in its place.' : `${found.length} found.`);
  return found.length === 0 ? EXIT.ok : EXIT.problems;
};
