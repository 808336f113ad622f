/**
 * One connection to a server: a client and a transport that are used once. After it has closed, another one is made.
 *
 * C1  A connection is usable once the server has answered and its tools were listed.
 * C2  A server gets nothing from us but answers to `roots/list`, with the one folder that it runs in: whatever else it
 *     asks for is refused by the client, which offers nothing else.
 */
import { pathToFileURL } from 'node:url';
import type { Client, Transport } from '@modelcontextprotocol/client';
import type { Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { McpLibrary } from './client-library.ts';
import { type LiveTool, liveTool } from './definition.ts';

export interface ConnectionParts {
  readonly env: Env;
  readonly library: McpLibrary;
  readonly transport: Transport;
  /** Why the transport has closed, where it knows. */
  readonly failure: () => string | undefined;
  /** The folder that the server may know of; undefined: none. */
  readonly root: string | undefined;
  readonly connectTimeoutMs: number;
  /** The server is known to speak the protocol before 2026-07-28 only. */
  readonly isLegacy: boolean;
  readonly version: string;
}

/** Pages of one list of tools, and tools of all of them. */
const MAX_PAGES = 64;
const MAX_TOOLS = 1000;
/** A list that is older is read again before a call: not every server says that its tools have changed. */
const MAX_LIST_AGE_MS = 60_000;
const MAX_INPUT_ROUNDS = 2;

/** Results are checked where they are used: the client would drop what it does not know. */
const ANY = {
  '~standard': { version: 1, vendor: 'orchd', validate: (value: unknown) => ({ value }) },
} as const;

export interface CallOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Called with what the server says about its progress. */
  readonly onProgress?: (text: string) => void;
}

export class McpConnection {
  readonly #parts: ConnectionParts;
  readonly #client: Client;
  readonly #closed = Promise.withResolvers<string>();
  #tools: ReadonlyMap<string, LiveTool> = new Map();
  #listedAt = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;
  #onTools: (tools: ReadonlyMap<string, LiveTool>) => Promise<void> | void = () => undefined;

  /** Throws where the server does not answer in time, or not as the protocol says. */
  static async open(
    parts: ConnectionParts,
    onTools: (tools: ReadonlyMap<string, LiveTool>) => Promise<void> | void,
  ): Promise<McpConnection> {
    const connection = new McpConnection(parts);
    connection.#onTools = onTools;
    try {
      await connection.#connect();
      await connection.list();
    } catch (error) {
      const failure = parts.failure();
      await connection.close();
      throw failure === undefined ? error : new Error(failure, { cause: error });
    }
    return connection;
  }

  private constructor(parts: ConnectionParts) {
    this.#parts = parts;
    const { library, root } = parts;
    const capabilities = root === undefined ? {} : { roots: {} };
    this.#client = new library.Client(
      { name: 'orchd', version: parts.version },
      {
        capabilities,
        inputRequired: { maxRounds: MAX_INPUT_ROUNDS },
        versionNegotiation: {
          mode: parts.isLegacy ? 'legacy' : 'auto',
          probe: { timeoutMs: Math.ceil(parts.connectTimeoutMs / 3) },
        },
        listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => this.#changed() } },
      },
    );
    // C2.
    if (root !== undefined)
      this.#client.setRequestHandler('roots/list', async () => ({
        roots: [{ uri: pathToFileURL(root).href, name: 'work' }],
      }));
    this.#client.onerror = () => undefined;
    this.#client.onclose = () => this.#closed.resolve(parts.failure() ?? 'the connection was closed');
  }

  /** Resolves when it is closed: why, for people. */
  get closed(): Promise<string> {
    return this.#closed.promise;
  }

  get isLegacy(): boolean {
    return this.#client.getProtocolEra() === 'legacy';
  }

  get protocolVersion(): string | undefined {
    return this.#client.getNegotiatedProtocolVersion();
  }

  get tools(): ReadonlyMap<string, LiveTool> {
    return this.#tools;
  }

  /** Whether the server can run calls of this tool as tasks, in the form of the protocol before 2026-07-28. */
  offersTasks({ definition }: LiveTool): 'required' | 'optional' | undefined {
    const { tasks } = (this.#client.getServerCapabilities() ?? {}) as {
      tasks?: { requests?: { tools?: { call?: unknown } } };
    };
    const support = definition.execution?.taskSupport;
    if (!tasks?.requests?.tools?.call || !this.isLegacy) return undefined;
    return support === 'required' || support === 'optional' ? support : undefined;
  }

  /** The tool as the server offers it now. */
  async current(tool: string): Promise<LiveTool | undefined> {
    if (this.#parts.env.clock.monotonic() - this.#listedAt > MAX_LIST_AGE_MS) await this.list();
    else await this.#listing;
    return this.#tools.get(tool);
  }

  call({ definition, forClient }: LiveTool, args: object, options: CallOptions): Promise<unknown> {
    return this.#client.callTool(
      { name: definition.name, arguments: args as Record<string, unknown> },
      { ...timesOf(options), toolDefinition: forClient as never },
    );
  }

  /** Requests outside of what the client knows, such as those of tasks. */
  request(method: string, params: Record<string, unknown>, options: CallOptions): Promise<unknown> {
    return this.#client.request({ method, params }, ANY, timesOf(options));
  }

  /** Reads all tools. Requests that come while one is under way share its answer. */
  list(): Promise<void> {
    this.#listing ??= this.#list().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async close(): Promise<void> {
    const { transport } = this.#parts;
    await this.#client.close().catch(() => undefined);
    // A client whose connect has failed may have let go of its transport.
    await transport.close().catch(() => undefined);
    this.#closed.resolve(this.#parts.failure() ?? 'the connection was closed');
  }

  async #connect(): Promise<void> {
    const { transport, connectTimeoutMs } = this.#parts;
    await this.#client.connect(transport, { timeout: connectTimeoutMs, maxTotalTimeout: connectTimeoutMs });
  }

  /** A list that fails closes the connection: what the server offers is not known any more. */
  #changed(): void {
    // The notification may come while a list is under way that is older than the change.
    const before = this.#listing?.catch(() => undefined) ?? Promise.resolve();
    this.#listedAt = Number.NEGATIVE_INFINITY;
    void before.then(() => this.list()).catch(() => this.close());
  }

  async #list(): Promise<void> {
    const tools = new Map<string, LiveTool>();
    const at = this.#parts.env.clock.monotonic();
    if (this.#client.getServerCapabilities()?.tools) {
      let cursor: unknown;
      let pages = 0;
      do {
        const params = cursor === undefined ? {} : { cursor };
        const page = (await this.request('tools/list', params, this.#listOptions())) as ToolPage | null;
        for (const listed of page?.tools ?? []) {
          const tool = liveTool(listed);
          if (tool && tools.size < MAX_TOOLS) tools.set(tool.definition.name, tool);
        }
        cursor = page?.nextCursor;
      } while (cursor !== undefined && ++pages < MAX_PAGES);
      if (cursor !== undefined) throw new OrchdError('MCP_PROTOCOL', 'its list of tools has no end');
    }
    await this.#onTools(tools);
    this.#tools = tools;
    this.#listedAt = at;
  }

  #listOptions(): CallOptions {
    return { signal: NEVER, timeoutMs: this.#parts.connectTimeoutMs };
  }
}

interface Progress {
  readonly progress?: unknown;
  readonly total?: unknown;
  readonly message?: unknown;
}

const progressText = ({ progress, total, message }: Progress): string =>
  typeof message === 'string' && message !== ''
    ? message
    : `${progress}${total === undefined ? '' : ` of ${total}`}\n`;

interface ToolPage {
  readonly tools?: readonly unknown[];
  readonly nextCursor?: unknown;
}

const NEVER = new AbortController().signal;

/** Progress notifications extend nothing. */
const timesOf = ({ signal, timeoutMs, onProgress }: CallOptions) => ({
  ...(onProgress && { onprogress: (progress: Progress) => onProgress(progressText(progress)) }),
  ...(signal !== NEVER && { signal }),
  timeout: timeoutMs,
  maxTotalTimeout: timeoutMs,
  resetTimeoutOnProgress: false,
});
