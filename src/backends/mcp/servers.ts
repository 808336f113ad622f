/**
 * The MCP servers of a brain and their tools: those that were allowed, as far as the servers still offer them
 * (docs/decisions/0042).
 *
 * V1  Models are told the definitions that were allowed, never what a server offers by now.
 * V2  The definitions that may be called are records: this object keeps a copy of those that are durable.
 */
import type { Env } from '../../kit/env/env.ts';
import type { Logger } from '../../kit/logger.ts';
import { OrchdError } from '../../model/errors.ts';
import type { McpServerView, McpToolView } from '../../model/http/mcp-servers.ts';
import { type McpDefinition, type McpPinRecord, pinId } from '../../model/mcp-records.ts';
import type { ToolEffect, ToolPayload } from '../../model/run-jobs.ts';
import { effectOf, type ListedTool, type LiveTool, modelName, namesIn } from './definition.ts';
import { McpBackend, type PermittedCall, type TaskRecords } from './mcp-backend.ts';
import { ServerLink } from './server-link.ts';
import type { McpServerSettings } from './settings.ts';

export interface McpRecordsPort extends TaskRecords {
  pins(): Promise<readonly McpPinRecord[]>;
  seen(definitions: readonly McpDefinition[]): Promise<void>;
  allow(definition: McpDefinition, by: string): Promise<McpPinRecord>;
}

export interface McpServersParts {
  readonly env: Env;
  readonly logger: Logger | undefined;
  readonly settings: readonly McpServerSettings[];
  /** The folder of the servers' own folders. */
  readonly folder: string;
  readonly version: string;
}

/** A tool that was allowed. */
export interface PinnedTool {
  readonly server: string;
  readonly definition: ListedTool;
  readonly hash: string;
  readonly effect: ToolEffect;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

export class McpServers {
  readonly #parts: McpServersParts;
  readonly #settings: ReadonlyMap<string, McpServerSettings>;
  #links = new Map<string, ServerLink>();
  #records: McpRecordsPort | undefined;
  /** V2, by pinId. */
  #pins: ReadonlyMap<string, McpPinRecord> = new Map();
  /** Those of `#pins` that models can call, by the name that they call them by. */
  #byName: ReadonlyMap<string, PinnedTool> = new Map();
  #loading: Promise<void> | undefined;

  constructor(parts: McpServersParts) {
    this.#parts = parts;
    this.#settings = new Map(parts.settings.map((each) => [each.name, each]));
  }

  get names(): readonly string[] {
    return [...this.#settings.keys()];
  }

  settingsOf(server: string): McpServerSettings | undefined {
    return this.#settings.get(server);
  }

  /** The backends of a brain; of several brains of one process, one after the other leads. */
  backends(records: McpRecordsPort, permit: (payload: ToolPayload) => PermittedCall): readonly McpBackend[] {
    this.#records = records;
    this.#pins = new Map();
    this.#byName = new Map();
    this.#loading = undefined;
    const onTools = (server: string, tools: ReadonlyMap<string, LiveTool>) => this.#seen(server, tools);
    this.#links = new Map(
      this.#parts.settings.map((settings) => [
        settings.name,
        new ServerLink({ ...this.#parts, settings, onTools }),
      ]),
    );
    const { env } = this.#parts;
    const permitted = async (payload: ToolPayload): Promise<PermittedCall> => {
      // After a restart calls may come before the records were read.
      await this.ready([payload.tool]);
      return permit(payload);
    };
    return [...this.#links.values()].map((link) => new McpBackend({ env, link, records, permit: permitted }));
  }

  /** Waits for what is known of these tools: the records, and for a tool without one the server. */
  async ready(names: readonly string[]): Promise<void> {
    const servers = names
      .flatMap((name) => namesIn(name)?.server ?? [])
      .filter((each) => this.#links.has(each));
    if (servers.length === 0) return;
    this.#loading ??= this.#load();
    await this.#loading;
    const missing = names.filter((name) => !this.find(name)).flatMap((name) => namesIn(name)?.server ?? []);
    const links = [...new Set(missing)].flatMap((server) => this.#links.get(server) ?? []);
    await Promise.all(links.map((link) => link.ready().catch(() => undefined)));
  }

  /** The tool that models call by this name; undefined where none was allowed. */
  find(name: string): PinnedTool | undefined {
    return this.#byName.get(name);
  }

  /** Whether the server still offers a tool that was allowed. */
  stateOf({ server, definition, hash }: PinnedTool): McpToolView['state'] {
    return this.#stateOf(server, definition.name, hash);
  }

  async view(): Promise<McpServerView[]> {
    await this.#load();
    return [...this.#links.values()].map((link) => this.#serverView(link));
  }

  /** Allows the definition that the server offers now, if it has this hash: a person has seen that one and no other. */
  async allow(server: string, tool: string, hash: string, by: string): Promise<McpServerView> {
    const link = this.#links.get(server);
    if (!link) throw new OrchdError('NOT_FOUND', `there is no MCP server "${server}"`);
    const { connection } = await link.ready();
    const live = await connection.current(tool);
    if (!live || !mayCall(link.settings, tool))
      throw new OrchdError('NOT_FOUND', `the MCP server "${server}" offers no tool "${tool}"`);
    if (live.hash !== hash)
      throw new OrchdError(
        'ILLEGAL_STATE',
        'the server offers another definition than the one that was shown',
      );
    await this.#records?.allow({ server, tool, hash, definition: live.text }, by);
    await this.#load();
    return this.#serverView(link);
  }

  async #load(): Promise<void> {
    const pins = (await this.#records?.pins()) ?? [];
    this.#pins = new Map(pins.map((pin) => [pinId(pin.server, pin.tool), pin]));
    this.#byName = new Map(
      pins.flatMap((pin) => {
        const settings = this.#settings.get(pin.server);
        const name = modelName(pin.server, pin.tool);
        if (!settings || name === undefined || !mayCall(settings, pin.tool)) return [];
        return [[name, pinnedTool(settings, pin)] as const];
      }),
    );
  }

  async #seen(server: string, tools: ReadonlyMap<string, LiveTool>): Promise<void> {
    const settings = this.#settings.get(server);
    await this.#load();
    const unseen = [...tools.values()].filter(
      ({ definition: { name } }) =>
        settings && mayCall(settings, name) && !this.#pins.has(pinId(server, name)),
    );
    if (unseen.length === 0) return;
    await this.#records?.seen(
      unseen.map(({ definition, text, hash }) => ({ server, tool: definition.name, hash, definition: text })),
    );
    await this.#load();
  }

  #stateOf(server: string, tool: string, hash: string): McpToolView['state'] {
    const connection = this.#links.get(server)?.connection;
    if (!connection) return 'unavailable';
    const live = connection.tools.get(tool);
    if (!live) return 'missing';
    return live.hash === hash ? 'allowed' : 'changed';
  }

  #serverView({ settings, connection, restarts, lastError }: ServerLink): McpServerView {
    const { name, transport } = settings;
    const pins = [...this.#pins.values()].filter(({ server }) => server === name);
    const tools = pins
      .filter(({ tool }) => mayCall(settings, tool))
      .map((pin) => this.#toolView(settings, pin));
    return {
      name,
      transport: transport.is,
      connected: connection !== undefined,
      ...(connection?.protocolVersion !== undefined && { protocol: connection.protocolVersion }),
      restarts,
      ...(lastError !== undefined && { last_error: lastError }),
      tools,
    };
  }

  #toolView(settings: McpServerSettings, pin: McpPinRecord): McpToolView {
    const { server, tool, hash, at, by } = pin;
    const definition = JSON.parse(pin.definition) as ListedTool;
    const state = this.#stateOf(server, tool, hash);
    const live = this.#links.get(server)?.connection?.tools.get(tool);
    const name = modelName(server, tool);
    return {
      tool,
      ...(name !== undefined && { name }),
      state,
      effect: effectOf(settings, definition),
      hash,
      definition,
      allowed_at: at,
      allowed_by: by,
      ...(state === 'changed' && live && { offered: { hash: live.hash, definition: live.definition } }),
    };
  }
}

function pinnedTool(
  settings: McpServerSettings,
  { server, hash, definition: text }: McpPinRecord,
): PinnedTool {
  const definition = JSON.parse(text) as ListedTool;
  const { timeoutMs, maxOutputBytes } = settings;
  return { server, definition, hash, effect: effectOf(settings, definition), timeoutMs, maxOutputBytes };
}

const mayCall = ({ allow }: McpServerSettings, tool: string): boolean => allow?.includes(tool) ?? true;
