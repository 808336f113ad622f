/** `orchd spool ACTION DIR`: a job queue made of folders. */
import { oneOf } from '../arguments.ts';
import { type Command, UsageError } from '../command.ts';
import { JSON_OPTION, SERVER_OPTIONS, usageOf } from '../options.ts';
import type { SpoolAction } from '../spool/people.ts';

const DAEMONS = ['up', 'agent', 'watchdog', 'manager'] as const;
const LOOKS = ['ls', 'show', 'history', 'check'] as const;
const PEOPLE = ['init', 'submit', 'requeue', 'kill'] as const;
const WORDS = [...DAEMONS, ...PEOPLE, ...LOOKS] as const;

type Word = (typeof WORDS)[number];

const options = {
  brain: {
    type: 'string',
    value: 'URL',
    help: 'agent: hands the jobs to the brain at this address; watchdog: hands on kills of dead agents',
  },
  token: SERVER_OPTIONS.token,
  slots: {
    type: 'string',
    value: 'N',
    help: 'agent: how many jobs it has at once; by default 4, with --brain 64',
  },
  name: {
    type: 'string',
    value: 'NAME',
    help: 'agent: the beginning of its id; submit: the name of the job',
  },
  timeout: {
    type: 'string',
    value: 'TIME',
    help: 'agent: the longest that a job may run, such as 10m; by default as long as it takes',
  },
  grace: {
    type: 'string',
    value: 'TIME',
    help: 'agent: how long running jobs may go on after a stop; by default 30s, with --brain 0s',
  },
  cwd: {
    type: 'string',
    value: 'DIR',
    help: 'agent: the folder that commands run in; by default an empty one for each',
  },
  interval: {
    type: 'string',
    value: 'TIME',
    help: 'watchdog, manager: the pause between two looks; by default 5s and 1s',
  },
  'retry-delay': {
    type: 'string',
    value: 'TIME',
    help: 'manager: the pause before the first retry, which doubles; by default 5s',
  },
  'foreign-lock-ttl': {
    type: 'string',
    value: 'TIME',
    help: 'the silence after which a process of another machine or container counts as dead; by default 2m',
  },
  settle: {
    type: 'string',
    value: 'TIME',
    help: 'agent: how long a prompt.json that was made in place must be unchanged; by default 500ms',
  },
  file: {
    type: 'string',
    value: 'FILE',
    help: 'submit: the prompt is the JSON in this file; - is standard input',
  },
  priority: { type: 'string', value: 'N', help: 'submit: 0 is first, 9 is last; by default 5' },
  'max-retries': {
    type: 'string',
    value: 'N',
    help: 'submit: how often the job is tried again; by default 3',
  },
  in: {
    type: 'string',
    value: 'PLACE',
    multiple: true,
    help: 'ls: only jobs that lie there, such as incoming or stale',
  },
  ...JSON_OPTION,
} as const;

export const spool: Command = {
  usage: usageOf({
    call: 'spool ACTION DIR [OPTIONS] [-- COMMAND ARGS]',
    about: `A spool is a job queue made of folders: whoever puts a folder with a prompt.json into DIR/incoming has it run, with no
server, from any language, by any number of processes.

  init       makes the folders of a spool
  up         runs an agent, a watchdog and a manager; agent, watchdog and manager run one of them
  submit     puts a job into it: orchd spool submit DIR "PROMPT", or with --file
  ls         lists the jobs; show DIR JOB and history DIR JOB tell about one of them
  requeue    queues a stale, failed or killed job again: requeue DIR JOB
  kill       kills a job that waits or runs: kill DIR JOB
  check      looks through the whole spool, and says what is wrong and what to do about it

The agent runs COMMAND for each job, with prompt.json on its standard input; what it prints is the result. With --brain it
submits prompt.json to a brain, as POST /v2/tasks takes it. Agents may be stopped and killed: the brain runs no job twice.
Exit code: 0 done; 1 there is no such job, it is in no place for this, or check has found something; 2 wrong command line,
or no spool.`,
    options,
    examples: [
      'orchd spool init jobs && orchd spool up jobs -- ./run-job',
      'orchd spool up jobs --brain http://127.0.0.1:8080',
      'orchd spool submit jobs "Why is the sky blue?" --priority 3',
      'orchd spool ls jobs --in stale --in failed',
      'orchd spool check jobs',
    ],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, folder, ...rest] = args.positionals;
    if (word === undefined) throw new UsageError(`the action is missing: ${WORDS.join(', ')}.`);
    const action = oneOf(word, 'the action', WORDS);
    if (folder === undefined) throw new UsageError('the folder of the spool is missing.');
    return (await actionOf(action))(folder, rest, args, terminal);
  },
};

async function actionOf(word: Word): Promise<SpoolAction> {
  if ((DAEMONS as readonly string[]).includes(word))
    return (await import('../spool/daemons.ts'))[word as (typeof DAEMONS)[number]];
  if ((LOOKS as readonly string[]).includes(word))
    return (await import('../spool/looks.ts'))[word as (typeof LOOKS)[number]];
  return (await import('../spool/people.ts'))[word as (typeof PEOPLE)[number]];
}
