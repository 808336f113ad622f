/** The options by which jobs are found, of every command that takes them. */
import { JOB_STATES } from '../model/states.ts';
import type { ListRequest } from '../model/submit.ts';
import { listOf, oneOf, textOf } from './arguments.ts';
import type { CliArguments } from './command.ts';
import type { Options } from './options.ts';

export const FILTER_OPTIONS = {
  batch: { type: 'string', value: 'BATCH', help: 'only jobs of this batch' },
  tag: {
    type: 'string',
    multiple: true,
    value: 'NAME=VALUE',
    help: 'only jobs with this tag; repeat it for several, all of which a job must have',
  },
  state: {
    type: 'string',
    value: 'STATE',
    choices: JOB_STATES,
    help: 'only jobs in this state; separate several states with commas',
  },
  type: { type: 'string', value: 'TYPE', help: 'only jobs of this type' },
  agent: { type: 'string', value: 'AGENT', help: 'only jobs of this agent' },
  session: { type: 'string', value: 'SESSION', help: 'only jobs of this session' },
  key: { type: 'string', value: 'KEY', help: 'only jobs with this key' },
  root: { type: 'string', value: 'JOB', help: 'only jobs below this job, such as the calls of a run' },
} as const satisfies Options;

/** For commands that change all jobs that match. */
export const BULK_OPTIONS = {
  ...FILTER_OPTIONS,
  'dry-run': { type: 'boolean', help: 'with filters: only show which jobs match' },
  yes: { type: 'boolean', help: 'with filters: do not ask' },
} as const satisfies Options;

export type JobFilter = Omit<ListRequest, 'cursor' | 'limit'>;

export function jobFilterOf({ values }: CliArguments): JobFilter {
  const state = textOf(values, 'state');
  for (const each of state?.split(',') ?? []) oneOf(each.trim(), '--state', JOB_STATES);
  const tags = listOf(values, 'tag');
  const fields = {
    batch: textOf(values, 'batch'),
    tag: tags.length === 0 ? undefined : [...tags],
    state,
    type: textOf(values, 'type'),
    agent: textOf(values, 'agent'),
    session_id: textOf(values, 'session'),
    key: textOf(values, 'key'),
    root: textOf(values, 'root'),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

export const hasFilter = ({ values }: CliArguments): boolean =>
  Object.keys(FILTER_OPTIONS).some((name) => values[name] !== undefined);
