/**
 * The backend of one MCP server. A call is a job of type `tool` with the label `mcp` of its server.
 *
 * M1  It does not remember calls over a restart of the brain: their outcomes are unknown then. Only a call that the
 *     server runs as a task is found again, by its record.
 * M2  A tool is called only while the server offers the very definition that was allowed.
 */
import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
} from '../../core/ports/backend.ts';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { McpTaskRecord } from '../../model/mcp-records.ts';
import { TOOL_TYPE, type ToolPayload, type ToolResult } from '../../model/run-jobs.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { FunctionBackend, type FunctionContext } from '../local/functions.ts';
import { endOfFailedCall } from './call-error.ts';
import type { McpConnection } from './connection.ts';
import { resultOf } from './content.ts';
import type { LiveTool } from './definition.ts';
import type { ServerLink } from './server-link.ts';
import { awaitTask, beginTask } from './task-call.ts';

export const MCP_KIND = 'mcp';
export const MCP_LABEL = 'mcp';
export const mcpBackendName = (server: string): string => `mcp/${server}`;

/** A call that may be made, by what holds now. */
export interface PermittedCall {
  /** As the server names it. */
  readonly tool: string;
  readonly args: object;
  /** The hash of the definition that was allowed. */
  readonly hash: string;
}

export interface TaskRecords {
  task(token: string): Promise<McpTaskRecord | undefined>;
  taskBegun(token: string, task: Omit<McpTaskRecord, 'v' | 'at'>): Promise<void>;
  taskEnded(token: string): Promise<void>;
}

export interface McpBackendParts {
  readonly env: Env;
  readonly link: ServerLink;
  readonly records: TaskRecords;
  /** Throws an OrchdError for a call that may not be made. */
  readonly permit: (payload: ToolPayload, jobId: string) => Promise<PermittedCall>;
}

export class McpBackend implements Backend {
  readonly #parts: McpBackendParts;
  readonly #functions: FunctionBackend;
  /** The tokens whose calls are tasks with a record. */
  readonly #tasks = new Set<string>();

  constructor(parts: McpBackendParts) {
    this.#parts = parts;
    const { name, slots, transport } = parts.link.settings;
    this.#functions = new FunctionBackend(parts.env, {
      name: mcpBackendName(name),
      kind: MCP_KIND,
      labels: { [MCP_LABEL]: name },
      slots,
      endsWithProcess: transport.is === 'stdio',
      types: { [TOOL_TYPE]: (payload: ToolPayload, context) => this.#call(payload, context) },
    });
  }

  get info(): BackendInfo {
    return this.#functions.info;
  }

  start(): Promise<void> {
    return this.#parts.link.start();
  }

  stop(): Promise<void> {
    return this.#parts.link.stop();
  }

  offer(offer: Offer): Promise<OfferReply> {
    return this.#functions.offer(offer);
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    for (const token of tokens) await this.#findTask(token);
    return this.#functions.inspect(tokens, who);
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    await this.#findTask(token);
    return this.#functions.follow(token, from, on, who, signal);
  }

  async kill(token: string, who: Commander, how?: KillHow): Promise<KillReply> {
    await this.#findTask(token);
    return this.#functions.kill(token, who, how);
  }

  async ack(token: string, who: Commander): Promise<void> {
    await this.#functions.ack(token, who);
    if (!this.#functions.knows(token) && this.#tasks.delete(token))
      await this.#parts.records.taskEnded(token);
  }

  /** M1: goes on with a task of an earlier brain. */
  async #findTask(token: string): Promise<void> {
    if (this.#functions.knows(token)) return;
    const { records, link } = this.#parts;
    const task = await records.task(token);
    if (task?.server !== link.settings.name || this.#functions.knows(token)) return;
    this.#tasks.add(token);
    this.#functions.resume(token, (signal) =>
      this.#atServer(signal, (connection) => this.#taskEnd(connection, task.taskId, signal)),
    );
  }

  async #call(payload: ToolPayload, { token, jobId, signal, emit }: FunctionContext): Promise<ToolResult> {
    const { link, permit } = this.#parts;
    const { tool, args, hash } = await permit(payload, jobId);
    return this.#atServer(signal, async (connection) => {
      const live = await currentTool(connection, tool);
      if (!live) throw new OrchdError('MCP_TOOL_MISSING', `the server no longer offers the tool "${tool}"`);
      // M2.
      if (live.hash !== hash)
        throw new OrchdError('MCP_TOOL_CHANGED', `the server has changed the tool "${tool}"`);
      const options = { signal, timeoutMs: link.settings.timeoutMs, onProgress: emit };
      if (!this.#isTask(connection, live)) return connection.call(live, args, options);
      const taskId = await beginTask(connection, live, args, options);
      await this.#parts.records.taskBegun(token, { server: link.settings.name, taskId });
      this.#tasks.add(token);
      return this.#taskEnd(connection, taskId, signal);
    });
  }

  /** The tasks of a server with a command end with it, so they are used only where the tool cannot be called otherwise. */
  #isTask(connection: McpConnection, live: LiveTool): boolean {
    const offered = connection.offersTasks(live);
    return (
      offered === 'required' || (offered === 'optional' && this.#parts.link.settings.transport.is === 'http')
    );
  }

  #taskEnd(connection: McpConnection, taskId: string, signal: AbortSignal): Promise<unknown> {
    const { env, link } = this.#parts;
    return awaitTask(connection, taskId, env.timers, { signal, timeoutMs: link.settings.timeoutMs });
  }

  async #atServer(
    signal: AbortSignal,
    work: (connection: McpConnection) => Promise<unknown>,
  ): Promise<ToolResult> {
    const { link } = this.#parts;
    const { timeoutMs, maxOutputBytes } = link.settings;
    const { connection, library } = await link.ready(signal);
    signal.throwIfAborted();
    try {
      return resultOf(await work(connection), maxOutputBytes);
    } catch (error) {
      signal.throwIfAborted();
      return endOfFailedCall(error, library, connection, timeoutMs);
    }
  }
}

/** An error before the call was sent: the server has done nothing. */
async function currentTool(connection: McpConnection, tool: string): Promise<LiveTool | undefined> {
  try {
    return await connection.current(tool);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new OrchdError('MCP_UNAVAILABLE', `the MCP server does not list its tools: ${why}`);
  }
}
