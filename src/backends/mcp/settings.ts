/** The servers of the configuration, checked, with the values of the environment that they name. */
import { resolve } from 'node:path';
import type { McpServerConfig } from '../../config/mcp.ts';
import type { BackoffPolicy } from '../../kit/backoff.ts';
import { Secret } from '../../kit/secret.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ToolEffect } from '../../model/run-jobs.ts';

export interface StdioSettings {
  readonly is: 'stdio';
  readonly argv: readonly string[];
  /** The variables that are passed on, with their values. */
  readonly env: Readonly<Record<string, string>>;
  /** Where the server runs, and the only root that it is told of; undefined: a folder of its own. */
  readonly folder: string | undefined;
}

export interface HttpSettings {
  readonly is: 'http';
  readonly url: string;
  readonly key: Secret | undefined;
}

export interface McpServerSettings {
  readonly name: string;
  readonly transport: StdioSettings | HttpSettings;
  /** The tools that may be called; undefined: all. */
  readonly allow: readonly string[] | undefined;
  readonly effects: Readonly<Record<string, ToolEffect>>;
  /** Hints of the server about what its tools do count, where `effects` says nothing. */
  readonly trustHints: boolean;
  readonly slots: number;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly restart: BackoffPolicy;
  readonly maxOutputBytes: number;
  readonly maxMessageBytes: number;
}

const DEFAULTS = {
  slots: 8,
  timeoutMs: 60_000,
  connectTimeoutMs: 30_000,
  restartMinMs: 500,
  restartMaxMs: 60_000,
  maxOutputBytes: 64 * 1024,
  maxMessageBytes: 4 * 1024 * 1024,
};
const RESTART_JITTER = 0.2;

/** Throws INVALID_PARAMS for a server that cannot be used. */
export function mcpSettings(
  servers: readonly McpServerConfig[],
  variables: Readonly<Record<string, string | undefined>>,
): readonly McpServerSettings[] {
  const names = new Set<string>();
  return servers.map((server, at) => {
    const fail = (key: string, message: string): never => {
      throw new OrchdError('INVALID_PARAMS', `the MCP server "${server.name}" ${message}`, {
        field: `mcp[${at}]${key === '' ? '' : `.${key}`}`,
      });
    };
    if (names.has(server.name)) fail('name', 'is named twice');
    names.add(server.name);
    return settingsOf(server, variables, fail);
  });
}

type Fail = (key: string, message: string) => never;

function settingsOf(
  server: McpServerConfig,
  variables: Readonly<Record<string, string | undefined>>,
  fail: Fail,
): McpServerSettings {
  const { restart_min_ms: baseDelayMs = DEFAULTS.restartMinMs, allow } = server;
  const maxDelayMs = server.restart_max_ms ?? Math.max(DEFAULTS.restartMaxMs, baseDelayMs);
  if (maxDelayMs < baseDelayMs) fail('restart_max_ms', 'may not have less than restart_min_ms');
  for (const tool of Object.keys(server.effects ?? {}))
    if (allow && !allow.includes(tool)) fail('effects', `has no tool "${tool}" in "allow"`);
  return {
    name: server.name,
    transport: transportOf(server, variables, fail),
    allow,
    effects: server.effects ?? {},
    trustHints: server.trust_hints ?? false,
    slots: server.slots ?? DEFAULTS.slots,
    timeoutMs: server.timeout_ms ?? DEFAULTS.timeoutMs,
    connectTimeoutMs: server.connect_timeout_ms ?? DEFAULTS.connectTimeoutMs,
    restart: { baseDelayMs, maxDelayMs, jitter: RESTART_JITTER },
    maxOutputBytes: server.max_output_bytes ?? DEFAULTS.maxOutputBytes,
    maxMessageBytes: server.max_message_bytes ?? DEFAULTS.maxMessageBytes,
  };
}

const ONLY_STDIO = ['env', 'folder'] as const;

function transportOf(
  server: McpServerConfig,
  variables: Readonly<Record<string, string | undefined>>,
  fail: Fail,
): StdioSettings | HttpSettings {
  const { command, url, folder, env: named = [], key_env: keyName } = server;
  const variable = (name: string, key: string): string =>
    variables[name] ?? fail(key, `needs the environment variable ${name}, which is not set`);
  if (command && url !== undefined) fail('url', 'has both a command and a url: give one of them');
  if (url !== undefined) {
    for (const key of ONLY_STDIO)
      if (server[key] !== undefined) fail(key, `has a url: "${key}" is for servers with a command`);
    const key = keyName === undefined ? undefined : new Secret(variable(keyName, 'key_env'));
    return { is: 'http', url, key };
  }
  if (!command) return fail('', 'needs a "command" or a "url"');
  if (keyName !== undefined) fail('key_env', 'has a command: name the variable in "env"');
  const env = Object.fromEntries(named.map((name) => [name, variable(name, 'env')]));
  return { is: 'stdio', argv: command, env, folder: folder === undefined ? undefined : resolve(folder) };
}
