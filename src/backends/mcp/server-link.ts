/**
 * Keeps one server connected while the brain runs: a server that has died is connected again after a pause that grows
 * with every failure in a row.
 */
import { backoffMs } from '../../kit/backoff.ts';
import type { Env } from '../../kit/env/env.ts';
import { stableHash } from '../../kit/hash.ts';
import type { Logger } from '../../kit/logger.ts';
import { pause } from '../../kit/pause.ts';
import { endMarked, type Mark } from '../../kit/process/marked.ts';
import { Service } from '../../kit/service.ts';
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { loadClient, type McpLibrary } from './client-library.ts';
import { McpConnection } from './connection.ts';
import type { LiveTool } from './definition.ts';
import type { McpServerSettings } from './settings.ts';
import { makeTransport } from './transports.ts';

export interface LinkParts {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly settings: McpServerSettings;
  /** The folder of all MCP servers, below the data folder. */
  readonly folder: string;
  readonly version: string;
  /** Called with the tools of a server before they are used. */
  readonly onTools: (server: string, tools: ReadonlyMap<string, LiveTool>) => Promise<void>;
}

/** A connection that has held for this long ends a row of failures. */
const STABLE_MS = 10_000;
const MAX_ERROR_CHARS = 500;

export class ServerLink extends Service {
  readonly #parts: LinkParts;
  readonly #mark: Mark;
  #library: McpLibrary | undefined;
  #connection: McpConnection | undefined;
  /** Resolves at the next connection. */
  #next = Promise.withResolvers<void>();
  #failures = 0;
  #restarts = -1;
  #lastError: string | undefined;
  #isLegacy = false;
  #running: Promise<void> | undefined;

  constructor(parts: LinkParts) {
    super();
    this.#parts = parts;
    const scope = stableHash(parts.folder).slice(0, 16);
    this.#mark = { variable: 'ORCHD_MCP', value: `${scope}/${parts.settings.name}` };
  }

  get settings(): McpServerSettings {
    return this.#parts.settings;
  }

  get connection(): McpConnection | undefined {
    return this.#connection;
  }

  /** Connections after the first one. */
  get restarts(): number {
    return Math.max(0, this.#restarts);
  }

  /** Why it is not connected, or why it was not the last time. */
  get lastError(): string | undefined {
    return this.#lastError;
  }

  /** Throws MCP_UNAVAILABLE where there is no connection in time. */
  async ready(signal?: AbortSignal): Promise<{ connection: McpConnection; library: McpLibrary }> {
    const { env, settings } = this.#parts;
    if (!this.#connection) {
      const aborted = new Promise<void>((resolve) =>
        signal?.addEventListener('abort', () => resolve(), { once: true }),
      );
      await within(
        env.timers,
        settings.connectTimeoutMs,
        Promise.race([this.#next.promise, aborted]),
        undefined,
      );
    }
    const connection = this.#connection;
    const library = this.#library;
    if (connection && library) return { connection, library };
    const why = this.#lastError ?? 'it has not answered yet';
    throw new OrchdError('MCP_UNAVAILABLE', `the MCP server "${settings.name}" is not connected: ${why}`);
  }

  protected async onStart(): Promise<void> {
    this.#running = this.#run();
  }

  protected async onStop(): Promise<void> {
    await this.#connection?.close();
    this.#next.resolve();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { env, settings } = this.#parts;
    // P1 of server-process.ts.
    if (settings.transport.is === 'stdio') await endMarked(env, this.#mark);
    while (!this.stopSignal.aborted) {
      await this.#connectOnce();
      if (this.stopSignal.aborted) return;
      const waitMs = backoffMs(settings.restart, Math.max(1, this.#failures), env.random.next());
      await pause(env.timers, waitMs, this.stopSignal);
    }
  }

  async #connectOnce(): Promise<void> {
    const { env, settings, logger } = this.#parts;
    const begunAt = env.clock.monotonic();
    let why: string;
    try {
      const connection = await this.#open();
      this.#restarts++;
      this.#isLegacy = connection.isLegacy;
      this.#connection = connection;
      this.#lastError = undefined;
      this.#next.resolve();
      if (this.stopSignal.aborted) await connection.close();
      why = await connection.closed;
      await connection.close();
    } catch (error) {
      // An older server may end because it does not know the first request of newer clients.
      this.#isLegacy = !this.#isLegacy;
      why = error instanceof Error ? error.message : String(error);
    }
    if (this.#connection) this.#next = Promise.withResolvers();
    this.#connection = undefined;
    if (this.stopSignal.aborted) return;
    const isStable = env.clock.monotonic() - begunAt > STABLE_MS;
    this.#failures = isStable ? 1 : this.#failures + 1;
    this.#lastError = why.slice(0, MAX_ERROR_CHARS);
    logger?.warn('an MCP server is not connected', {
      backend: `mcp/${settings.name}`,
      reason: this.#lastError,
    });
  }

  async #open(): Promise<McpConnection> {
    const { env, settings, folder, version, onTools } = this.#parts;
    this.#library ??= await loadClient();
    const library = this.#library;
    const { connectTimeoutMs, name } = settings;
    const made = await makeTransport({ env, library, settings, folder, mark: this.#mark });
    const { transport, root, failure } = made;
    const opening = McpConnection.open(
      { env, library, transport, root, failure, connectTimeoutMs, version, isLegacy: this.#isLegacy },
      (tools) => onTools(name, tools),
    );
    const opened = await within(env.timers, connectTimeoutMs, opening, undefined);
    if (opened) return opened;
    // The late connection, if there is one, is closed with its transport.
    opening.then((late) => late.close()).catch(() => undefined);
    await transport.close().catch(() => undefined);
    throw new Error(`it did not answer within ${connectTimeoutMs} ms`);
  }
}
