/**
 * Facts about the configuration that need no schema: loading the schema takes longer than most commands of the command
 * line.
 */
export type Environment = Readonly<Record<string, string | undefined>>;

export const PREFIX = 'ORCHD_';

/** Variables with this prefix that commands and other daemons of orchd read, not the configuration of the brain. */
export const OTHER_VARIABLES: readonly string[] = [
  'ORCHD_ADAPTER', // a LoRA file, for the processes of a worker pool
  'ORCHD_AGENT', // the agent that a worker pool works for, for its processes
  'ORCHD_CONFIG', // path of the configuration file
  'ORCHD_CONSUMER', // name of a consumer
  'ORCHD_CONSUMER_STATE', // folder of `orchd consume`
  'ORCHD_DATA', // data folder
  'ORCHD_GATEWAY_LAUNCH', // marks the process of a gateway that `orchd up` has started
  'ORCHD_GATEWAY_TOKEN', // token that callers of a gateway send
  'ORCHD_GPU_INDEX', // the GPU lent to a job of `orchd consume`, for its command
  'ORCHD_GPU_MEMORY_MB', // the memory of that GPU lent to it
  'ORCHD_GRACE', // how long a consumer may take to finish
  'ORCHD_MODEL', // the model of a worker pool, for its processes
  'ORCHD_POOL', // pool of a consumer
  'ORCHD_POOL_TOKEN', // token that callers of `orchd pool` send
  'ORCHD_PROVISION_NAME', // marks what `orchd provision` has started under a name
  'ORCHD_PROVISION_START', // marks the process of one start
  'ORCHD_TOKEN', // bearer token of a client
  'ORCHD_UPSTREAM_KEY', // key that a worker sends to the server behind it
  'ORCHD_UPSTREAM_LAUNCH', // marks the process of an upstream's executor
  'ORCHD_WORKER_ARGS', // options for the workers of `orchd up --model`
  'ORCHD_WORKER_DEMO_DELAY_MS', // pause of the demo engine between two words
  'ORCHD_WORKER_LEDGER', // audit file of a worker
  'ORCHD_MODULE', // marks the processes of a module
  'ORCHD_WORKER_MARK', // marks the processes of a worker
  'ORCHD_WORKER_TOKEN', // token that callers of `orchd worker` send
  'ORCHD_VARIANT', // a variant of a model, for the processes of a worker pool
  'ORCHD_URL', // address of the server a client talks to
];

/**
 * Variables that Kubernetes sets in every pod beside a Service whose name begins with `orchd`: for `orchd-pool` these are
 * ORCHD_POOL_SERVICE_HOST, ORCHD_POOL_PORT=tcp://10.0.0.1:9200, ORCHD_POOL_PORT_9200_TCP_ADDR and so on.
 */
const SERVICE_LINK =
  /^ORCHD_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$/;
const SERVICE_ADDRESS = /^ORCHD_(?:\w+_)?PORT$/;

/** Whether a variable is not for the configuration, although its name begins with PREFIX. */
export const isOtherVariable = (name: string, value: string): boolean =>
  OTHER_VARIABLES.includes(name) ||
  SERVICE_LINK.test(name) ||
  (SERVICE_ADDRESS.test(name) && /^(?:tcp|udp|sctp):\/\//.test(value));

/** The default of orchestrator.state.checkpoint_dir. */
export const DEFAULT_DATA_FOLDER = 'data/orchestrator';

/** Whether a variable may set a key of the configuration. */
export const hasConfigVariable = (env: Environment): boolean =>
  Object.entries(env).some(([name, value = '']) => name.startsWith(PREFIX) && !isOtherVariable(name, value));
