/** The table of commands. The module of a command is loaded when it is needed: the list needs only names and summaries. */
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
    name: 'gateway',
    summary: 'Start a gateway: one request at a time on scarce LLM accounts',
    load: async () => (await import('./commands/gateway.ts')).gateway,
  },
  {
    name: 'spool',
    summary: 'Run and use a spool: a job queue made of folders',
    load: async () => (await import('./commands/spool.ts')).spool,
  },
  {
    name: 'consume',
    summary: 'Run a command for each job of a pool of consumers',
    load: async () => (await import('./commands/consume.ts')).consume,
  },
  {
    name: 'provision',
    summary: 'Keep the processes of worker pools running',
    load: async () => (await import('./commands/provision.ts')).provision,
  },
  {
    name: 'status',
    summary: 'Show the whole on one screen; with --watch live',
    load: async () => (await import('./commands/status.ts')).status,
  },
  {
    name: 'models',
    summary: 'List the models that jobs can name',
    load: async () => (await import('./commands/models.ts')).models,
  },
  {
    name: 'pools',
    summary: 'List the pools with their devices and workers',
    load: async () => (await import('./commands/pools.ts')).pools,
  },
  {
    name: 'routes',
    summary: 'List, set and delete routes: names for ordered lists of models',
    load: async () => (await import('./commands/routes.ts')).routes,
  },
  {
    name: 'schedules',
    summary: 'List, set and delete schedules: jobs that are submitted again and again',
    load: async () => (await import('./commands/schedules.ts')).schedules,
  },
  {
    name: 'governance',
    summary: 'Show the mode and the rules, or set the mode: LOCKDOWN stops everything',
    load: async () => (await import('./commands/governance.ts')).governance,
  },
  {
    name: 'prices',
    summary: 'List the prices in force, or replace them',
    load: async () => (await import('./commands/prices.ts')).prices,
  },
  {
    name: 'submit',
    summary: 'Submit a job, or a file of jobs; with --follow print its answer',
    load: async () => (await import('./commands/submit.ts')).submit,
  },
  {
    name: 'agents',
    summary: 'List the agents that can be run',
    load: async () => (await import('./commands/agents.ts')).agents,
  },
  {
    name: 'tools',
    summary: 'List the MCP servers and their tools, or allow a definition that has changed',
    load: async () => (await import('./commands/tools.ts')).tools,
  },
  {
    name: 'modules',
    summary: 'List the modules, which propose jobs; or scan one now',
    load: async () => (await import('./commands/modules.ts')).modules,
  },
  {
    name: 'reload',
    summary: 'Have the server read its configuration file again',
    load: async () => (await import('./commands/reload.ts')).reload,
  },
  {
    name: 'run',
    summary: 'Run an agent, and print what it says',
    load: async () => (await import('./commands/run.ts')).runAgent,
  },
  {
    name: 'chat',
    summary: 'Talk with an agent, line by line',
    load: async () => (await import('./commands/chat.ts')).chat,
  },
  {
    name: 'sessions',
    summary: 'List, show, export, fork and delete conversations',
    load: async () => (await import('./commands/sessions.ts')).sessions,
  },
  {
    name: 'runs',
    summary: 'Pause and resume runs of agents',
    load: async () => (await import('./commands/runs.ts')).runs,
  },
  {
    name: 'replay',
    summary: 'Run the steps of a run again on its records, and compare; or save it',
    load: async () => (await import('./commands/replay.ts')).replay,
  },
  {
    name: 'fork',
    summary: 'Start a run that goes on from a step of another one',
    load: async () => (await import('./commands/fork.ts')).fork,
  },
  {
    name: 'eval',
    summary: 'Replay saved runs with a changed agent: which would differ',
    load: async () => (await import('./commands/eval.ts')).evaluate,
  },
  {
    name: 'wait',
    summary: 'Wait until batches and jobs have ended',
    load: async () => (await import('./commands/wait.ts')).wait,
  },
  {
    name: 'results',
    summary: 'Print the results of a batch, in the order of its file',
    load: async () => (await import('./commands/results.ts')).results,
  },
  {
    name: 'batches',
    summary: 'List batches, the last changed first',
    load: async () => (await import('./commands/batches.ts')).batches,
  },
  {
    name: 'usage',
    summary: 'Show what was spent, by agent, model, day and more; or export the ledger',
    load: async () => (await import('./commands/usage.ts')).usage,
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
    summary: 'Explain why a job waits',
    load: async () => (await import('./commands/explain.ts')).explain,
  },
  {
    name: 'tail',
    summary: 'Print the events of a job until it ends',
    load: async () => (await import('./commands/tail.ts')).tail,
  },
  {
    name: 'cancel',
    summary: 'Cancel jobs and all their descendants',
    load: async () => (await import('./commands/cancel.ts')).cancel,
  },
  {
    name: 'redrive',
    summary: 'Queue dead jobs again',
    load: async () => (await import('./commands/redrive.ts')).redrive,
  },
  {
    name: 'approvals',
    summary: 'List the calls of tools that wait for somebody to allow them',
    load: async () => (await import('./commands/approvals.ts')).approvals,
  },
  {
    name: 'approve',
    summary: 'Allow the call of a tool, or deny it',
    load: async () => (await import('./commands/approve.ts')).approve,
  },
  {
    name: 'mcp',
    summary: 'Serve an assistant: jobs, runs and results as tools of MCP, on standard input and output',
    load: async () => (await import('./commands/mcp.ts')).mcp,
  },
  {
    name: 'resolve',
    summary: 'Decide the outcome of a job whose outcome is unknown',
    load: async () => (await import('./commands/resolve.ts')).resolve,
  },
  {
    name: 'resume',
    summary: 'Give jobs again to a seat that was paused for what it billed',
    load: async () => (await import('./commands/resume.ts')).resume,
  },
  {
    name: 'token',
    summary: 'Create, list and revoke the tokens of callers',
    load: async () => (await import('./commands/token.ts')).token,
  },
  {
    name: 'config',
    summary: 'Check the configuration, or show it with its defaults',
    load: async () => (await import('./commands/config.ts')).config,
  },
  {
    name: 'doctor',
    summary: 'Check a data folder; copy what is intact in a damaged one',
    load: async () => (await import('./commands/doctor.ts')).doctor,
  },
  {
    name: 'migrate',
    summary: 'Upgrade the tables of the database, or copy all data to another store',
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
