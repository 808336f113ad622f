/** Makes the transport of a server: a new one for every connection. */
import { join } from 'node:path';
import type { Transport } from '@modelcontextprotocol/client';
import type { Env } from '../../kit/env/env.ts';
import type { Mark } from '../../kit/process/marked.ts';
import { Outbound } from '../../wire/outbound.ts';
import { Allowance } from './allowance.ts';
import type { McpLibrary } from './client-library.ts';
import { outboundFetch } from './http-fetch.ts';
import { ServerProcess } from './server-process.ts';
import type { HttpSettings, McpServerSettings, StdioSettings } from './settings.ts';
import { StdioTransport } from './stdio-transport.ts';

export interface TransportParts {
  readonly env: Env;
  readonly library: McpLibrary;
  readonly settings: McpServerSettings;
  /** The folder of all MCP servers, below the data folder. */
  readonly folder: string;
  readonly mark: Mark;
}

export interface MadeTransport {
  readonly transport: Transport;
  /** The folder that the server may know of. */
  readonly root: string | undefined;
  readonly failure: () => string | undefined;
}

/** The stream of notifications of a server may be silent for so long; the client then opens another one. */
const MIN_IDLE_MS = 60_000;
/** An answer comes with events around it. */
const BODY_FACTOR = 4;

export const makeTransport = (parts: TransportParts): Promise<MadeTransport> =>
  parts.settings.transport.is === 'stdio'
    ? stdio(parts, parts.settings.transport)
    : http(parts, parts.settings.transport);

async function stdio(
  { env, settings, folder, mark }: TransportParts,
  { argv, env: variables, folder: given }: StdioSettings,
): Promise<MadeTransport> {
  const home = join(folder, settings.name);
  await env.disk.makeFolder(home);
  const cwd = given ?? home;
  const transport = new StdioTransport({
    spawn: () => new ServerProcess({ env, argv, variables, home, cwd, mark }),
    allowance: new Allowance(env.clock),
    maxMessageBytes: settings.maxMessageBytes,
  });
  return { transport, root: cwd, failure: () => transport.failure };
}

async function http(
  { env, library, settings }: TransportParts,
  { url, key }: HttpSettings,
): Promise<MadeTransport> {
  const { timeoutMs, connectTimeoutMs, maxMessageBytes } = settings;
  const outbound = new Outbound({ timers: env.timers });
  const fetch = outboundFetch({
    target: outbound.to(url),
    url,
    key,
    idleMs: Math.max(MIN_IDLE_MS, timeoutMs, connectTimeoutMs),
    maxBytes: BODY_FACTOR * maxMessageBytes,
  });
  const transport = new library.StreamableHTTPClientTransport(new URL(url), { fetch });
  const close = transport.close.bind(transport);
  transport.close = async () => {
    await close();
    outbound.close();
  };
  return { transport: transport as Transport, root: undefined, failure: () => undefined };
}
