/**
 * Facts about the configuration that need no schema: loading the schema takes longer than most commands of the command
 * line.
 */
export type Environment = Readonly<Record<string, string | undefined>>;

export const PREFIX = 'ORCHD_';

/** Variables with this prefix that the command line reads, not the configuration. */
export const OTHER_VARIABLES: readonly string[] = [
  'ORCHD_CONFIG', // path of the configuration file
  'ORCHD_DATA', // data folder
  'ORCHD_TOKEN', // bearer token of a client
  'ORCHD_WORKER_ARGS', // options for the workers of `orchd up --model`
  'ORCHD_URL', // address of the server a client talks to
];

/** The default of orchestrator.state.checkpoint_dir. */
export const DEFAULT_DATA_FOLDER = 'data/orchestrator';

/** Whether a variable sets a key of the configuration, or is a mistake that the configuration reports. */
export const hasConfigVariable = (env: Environment): boolean =>
  Object.keys(env).some((name) => name.startsWith(PREFIX) && !OTHER_VARIABLES.includes(name));
