/** `orchd schedules [show NAME | set NAME FILE | delete NAME]` */
import type { OrchdClient } from '../../client/client.ts';
import type { ScheduleView, WrittenSchedule } from '../../model/http/schedules.ts';
import { flagOf, oneOf, singlePositional } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { yamlFile } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { scheduleLines, scheduleTable } from '../text/schedule-text.ts';

const WORDS = ['show', 'set', 'delete'] as const;

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each schedule' },
} as const;

export const schedules: Command = {
  usage: usageOf({
    call: 'schedules | schedules show NAME | schedules set NAME FILE | schedules delete NAME [OPTIONS]',
    about: `Lists the schedules: jobs that are submitted again and again, when they are due next, and their last tick.
set reads a schedule from FILE (- for standard input), in YAML or JSON: \`cron\` or \`every_sec\`, and a \`job\`.`,
    options,
    examples: [
      'orchd schedules',
      'orchd schedules set nightly nightly.yaml',
      'orchd schedules delete nightly',
    ],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    const client = connect(args);
    if (word === undefined) return list(await all(client), args, terminal);
    const action = oneOf(word, 'the action', WORDS);
    if (action === 'delete') {
      await client.deleteSchedule(singlePositional(rest, 'name'));
      return EXIT.ok;
    }
    if (action === 'show') return show(await client.schedule(singlePositional(rest, 'name')), args, terminal);
    const [name, ...files] = rest;
    if (name === undefined) throw new UsageError('the name is missing.');
    return show(
      await client.setSchedule(name, await scheduleIn(singlePositional(files, 'file'))),
      args,
      terminal,
    );
  },
};

async function all(client: OrchdClient): Promise<ScheduleView[]> {
  const found: ScheduleView[] = [];
  for (let after: string | undefined; ; ) {
    const { schedules: page, next } = await client.schedules(after);
    found.push(...page);
    if (next === undefined) return found;
    after = next;
  }
}

/** The schedule is checked by the server; only the form of the file is checked here. */
async function scheduleIn(file: string): Promise<WrittenSchedule> {
  const { value: schedule, label } = await yamlFile(file);
  if (typeof schedule !== 'object' || schedule === null || Array.isArray(schedule))
    throw new UsageError(`${label} is no object with \`cron\` or \`every_sec\`, and a \`job\`.`);
  return schedule as WrittenSchedule;
}

function list(found: readonly ScheduleView[], args: CliArguments, terminal: Terminal): number {
  if (flagOf(args.values, 'json')) for (const each of found) terminal.printData(JSON.stringify(each));
  else if (found.length === 0) terminal.complain('no schedules: `orchd schedules set NAME FILE` makes one.');
  else terminal.print(scheduleTable(found));
  return EXIT.ok;
}

function show(schedule: ScheduleView, args: CliArguments, terminal: Terminal): number {
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(schedule));
  else terminal.print(scheduleLines(schedule));
  return EXIT.ok;
}
