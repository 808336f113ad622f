/** The table of commands. Each one's module is loaded when it is run: help needs only names and summaries. */
import type { CommandEntry, LoadedCommand } from './command.ts';

/** A command is one file and one entry here. */
export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'up',
    summary: 'Start the server',
    load: async () => (await import('./commands/up.ts')).up,
  },
  {
    name: 'pool',
    summary: 'Start a pool manager: the workers of this machine',
    load: async () => (await import('./commands/pool.ts')).pool,
  },
  {
    name: 'worker',
    summary: 'Start a worker: a process with one model',
    load: async () => (await import('./commands/worker.ts')).worker,
  },
  {
    name: 'submit',
    summary: 'Submit a job, and follow it if wanted',
    load: async () => (await import('./commands/submit.ts')).submit,
  },
  {
    name: 'jobs',
    summary: 'List jobs, newest first',
    load: async () => (await import('./commands/jobs.ts')).jobs,
  },
  {
    name: 'show',
    summary: 'Show everything about a job: attempts, error, result',
    load: async () => (await import('./commands/show.ts')).show,
  },
  {
    name: 'explain',
    summary: 'Say why a job waits',
    load: async () => (await import('./commands/explain.ts')).explain,
  },
  {
    name: 'tail',
    summary: 'Follow what happens to a job, to its end',
    load: async () => (await import('./commands/tail.ts')).tail,
  },
  {
    name: 'cancel',
    summary: 'Cancel jobs and what belongs to them',
    load: async () => (await import('./commands/cancel.ts')).cancel,
  },
  {
    name: 'redrive',
    summary: 'Give dead jobs a new life',
    load: async () => (await import('./commands/redrive.ts')).redrive,
  },
  {
    name: 'resolve',
    summary: 'Settle a job whose outcome is unknown',
    load: async () => (await import('./commands/resolve.ts')).resolve,
  },
  {
    name: 'token',
    summary: 'Create, list and revoke the tokens of callers',
    load: async () => (await import('./commands/token.ts')).token,
  },
  {
    name: 'doctor',
    summary: 'Check a data folder, and save what is intact of a damaged one',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  {
    name: 'migrate',
    summary: 'Bring tables to this version, or move all work to another store',
    load: async () => (await import('./commands/migrate.ts')).migrate,
  },
  {
    name: 'completion',
    summary: 'Print a script that completes commands and options',
    load: async () => (await import('./commands/completion.ts')).completionOf(loadAll),
  },
  {
    name: 'version',
    summary: 'Print the version of orchd and of Node',
    load: async () => (await import('./commands/version.ts')).version,
  },
];

/** Every command, as completion scripts need them. */
export const loadAll = (): Promise<readonly LoadedCommand[]> =>
  Promise.all(COMMANDS.map(async ({ name, summary, load }) => ({ ...(await load()), name, summary })));
