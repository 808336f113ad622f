/** The configuration file of a pool manager: its schema, check and defaults. Command line flags override it. */
import { type Static, Type } from 'typebox';
import { isHttpUrl, splitList } from '../../config/address.ts';
import { failOnIssues } from '../../config/issues.ts';
import { NO_FILE, parseConfig } from '../../config/parse.ts';
import { checker } from '../../kit/check.ts';
import { OrchdError } from '../../model/errors.ts';
import { POOL_NAME } from '../../model/pool-wire.ts';

const optional = Type.Optional;
const Ms = Type.Integer({ minimum: 1, maximum: 86_400_000 });
const Host = Type.String({ pattern: '^[A-Za-z0-9._:-]{1,253}$' });
const Names = Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { maxItems: 1000 });
const closed = <P extends Parameters<typeof Type.Object>[0]>(properties: P) =>
  Type.Object(properties, { additionalProperties: false });

/** Which engine runs a model. A `match` that ends in `*` matches every model_ref with that prefix. */
export const EngineRule = closed({
  match: Type.String({ minLength: 1, maxLength: 1024 }),
  engine: Type.String({ pattern: '^[a-z0-9][a-z0-9_-]{0,63}$' }),
  /** Arguments added to the command line of the worker. */
  args: optional(Names),
});
export type EngineRule = Static<typeof EngineRule>;

export const PoolConfig = closed({
  pool_id: optional(Type.String({ pattern: POOL_NAME })),
  host: optional(Host),
  port: optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
  /** The name or address by which the brain reaches this machine. */
  advertise: optional(Host),
  data: optional(Type.String({ minLength: 1 })),
  region: optional(Type.String({ maxLength: 64 })),
  labels: optional(Type.Record(Type.String({ maxLength: 64 }), Type.String({ maxLength: 256 }))),
  allowed_hosts: optional(Type.Array(Host)),
  /** A file with the token that the brain must send; created with a new token where it does not exist. */
  token_file: optional(Type.String({ minLength: 1 })),
  brain: optional(Type.Union([Type.String(), Type.Array(Type.String())])),
  brain_token_file: optional(Type.String({ minLength: 1 })),
  register_ms: optional(Ms),
  models: optional(Names),
  hf_cache: optional(Type.String({ minLength: 1 })),
  hf_endpoint: optional(Type.String({ minLength: 1, maxLength: 1024 })),
  /** Hosts, with their ports, to which the endpoint may redirect a download. */
  hf_redirect_hosts: optional(Names),
  /** Memory of the CPU device: bytes, or a share of the machine's memory if at most 1. 0: no CPU device. */
  cpu_memory: optional(Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  device_poll_ms: optional(Ms),
  /** Whether a worker on a GPU may run its model on the CPU where its engine cannot use the GPU; by default it fails. */
  allow_cpu_fallback: optional(Type.Boolean()),
  engines: optional(Type.Array(EngineRule, { maxItems: 1000 })),
  /** The command line of a worker, with placeholders like {id}, {engine} and {file}. */
  worker_command: optional(Type.Array(Type.String({ maxLength: 4096 }), { minItems: 1, maxItems: 1000 })),
  /** Arguments added to the command line of every worker, before the arguments of its engine. */
  worker_args: optional(Names),
  /** The address on which workers listen. */
  worker_host: optional(Host),
  allowed_worker_hosts: optional(Type.Array(Host)),
  /** Names of the manager's environment variables that are passed to its workers. */
  pass_env: optional(Names),
  slots: optional(Type.Integer({ minimum: 1, maximum: 1024 })),
  context_length: optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
  /** With those that have failed and are listed, they are no more than a pool may report (MAX_POOL_WORKERS). */
  max_workers: optional(Type.Integer({ minimum: 1, maximum: 128 })),
  start_timeout_ms: optional(Ms),
  stop_grace_ms: optional(Ms),
  health_interval_ms: optional(Ms),
  health_timeout_ms: optional(Ms),
  health_misses: optional(Type.Integer({ minimum: 1, maximum: 1000 })),
});
export type PoolConfig = Static<typeof PoolConfig>;

const check = checker(PoolConfig);

/** Throws CONFIG_INVALID with the position of the error in the file. */
export function parsePoolConfig(text: string, label: string): PoolConfig {
  const { root, locate, issues } = text.trim() === '' ? NO_FILE : parseConfig(text, label);
  failOnIssues(issues);
  try {
    return checkedPoolConfig(root);
  } catch (error) {
    const { message, details } = error as OrchdError;
    const position = locate(details.field === undefined ? [] : details.field.split('.'), 'value');
    throw new OrchdError('CONFIG_INVALID', `${position}: ${message.replace('the request', 'the file')}`, {
      ...details,
      position,
    });
  }
}

export function checkedPoolConfig(value: unknown): PoolConfig {
  const config = check(value);
  const urls = [...splitList(config.brain ?? []), ...(config.hf_endpoint ? [config.hf_endpoint] : [])];
  if (!urls.every(isHttpUrl)) {
    throw new OrchdError(
      'CONFIG_INVALID',
      '"brain" and "hf_endpoint" are http or https URLs without a password',
    );
  }
  return config;
}

/** Defaults of the settings that a configuration leaves out. */
export const POOL_DEFAULTS = {
  /** Used where the machine's host name is not a valid pool name. */
  pool_id: 'pool',
  host: '127.0.0.1',
  port: 9200,
  register_ms: 5000,
  device_poll_ms: 5000,
  allow_cpu_fallback: false,
  /** The share of the machine's memory that the CPU device gets where there is no other device. */
  cpu_share: 0.5,
  slots: 4,
  /** A limit, because a model may support a far longer context than the device can hold. */
  context_length: 4096,
  max_workers: 64,
  start_timeout_ms: 60_000,
  stop_grace_ms: 10_000,
  health_interval_ms: 10_000,
  health_timeout_ms: 5000,
  health_misses: 3,
} as const;
