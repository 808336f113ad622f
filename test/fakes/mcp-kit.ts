/** MCP servers without a brain: records in memory, and calls made straight at their backends. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { offerOf } from '../../src/backends/conformance/offers.ts';
import type { McpBackend } from '../../src/backends/mcp/mcp-backend.ts';
import { type McpRecordsPort, McpServers } from '../../src/backends/mcp/servers.ts';
import { type McpServerSettings, mcpSettings } from '../../src/backends/mcp/settings.ts';
import type { McpServerConfig } from '../../src/config/mcp.ts';
import type { FollowEnd } from '../../src/core/ports/backend.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { poll } from '../../src/kit/poll.ts';
import { FIRST_SEEN, type McpPinRecord, type McpTaskRecord, pinId } from '../../src/model/mcp-records.ts';
import { TOOL_TYPE, type ToolPayload } from '../../src/model/run-jobs.ts';

export const FAKE_SERVER = join(import.meta.dirname, 'mcp-server-main.ts');

/** Like the records of a brain, without a brain. */
export class MemoryRecords implements McpRecordsPort {
  readonly byId = new Map<string, McpPinRecord>();
  readonly tasks = new Map<string, McpTaskRecord>();

  pins = async () => [...this.byId.values()];

  seen = async (definitions: Parameters<McpRecordsPort['seen']>[0]) => {
    for (const each of definitions) {
      const id = pinId(each.server, each.tool);
      if (!this.byId.has(id)) this.byId.set(id, { v: 1, at: 0, by: FIRST_SEEN, ...each });
    }
  };

  allow = async (definition: Parameters<McpRecordsPort['allow']>[0], by: string) => {
    const record: McpPinRecord = { v: 1, at: 0, by, ...definition };
    this.byId.set(pinId(definition.server, definition.tool), record);
    return record;
  };

  task = async (token: string) => this.tasks.get(token);

  taskBegun = async (token: string, task: Omit<McpTaskRecord, 'v' | 'at'>) => {
    this.tasks.set(token, { v: 1, at: 0, ...task });
  };

  taskEnded = async (token: string) => {
    this.tasks.delete(token);
  };
}

export interface McpKit {
  readonly servers: McpServers;
  readonly backend: McpBackend;
  readonly records: MemoryRecords;
  /** The folder that the fake server writes to. */
  readonly folder: string;
  /** The lines of a file of the fake server. */
  lines(name: 'calls' | 'started' | 'notified'): string[];
  /** Offers a call; its end. */
  call(tool: string, args?: object): Promise<FollowEnd>;
  /** Offers a call without waiting for it; its token. */
  begin(tool: string, args?: object): Promise<string>;
  end(token: string): Promise<FollowEnd>;
}

export const WHO = { owner: 'tests', epoch: 1 };

export interface KitOptions {
  readonly flags?: readonly string[];
  readonly config?: Partial<McpServerConfig>;
  readonly records?: MemoryRecords;
  readonly folder?: string;
}

export async function mcpKit(t: TestContext, options: KitOptions = {}): Promise<McpKit> {
  const { flags = [], records = new MemoryRecords() } = options;
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'orchd-mcp-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const env = realEnv();
  const command = [process.execPath, FAKE_SERVER, folder, ...flags];
  const config = { name: 'fake', command, connect_timeout_ms: 10_000, restart_min_ms: 10, ...options.config };
  const settings = mcpSettings([config], process.env);
  const parts = { env, logger: undefined, folder: join(folder, 'mcp'), version: '0' };
  const servers = new McpServers({ ...parts, settings: settings as readonly McpServerSettings[] });
  const permit = ({ tool, args }: ToolPayload) => {
    const name = tool.replace('fake__', '');
    const pin = records.byId.get(pinId('fake', name));
    return { tool: name, args: args as object, hash: pin?.hash ?? 'none' };
  };
  const [backend] = servers.backends(records, permit) as [McpBackend];
  await backend.start();
  t.after(() => backend.stop());
  let n = 0;
  const end = (token: string) => backend.follow(token, 0, () => undefined, WHO);
  const begin = async (tool: string, args: object = {}) => {
    const token = `job${n++}:1`;
    const payloadText = JSON.stringify({ agent: 'a', tool: `fake__${tool}`, args });
    const reply = await backend.offer(
      offerOf(WHO, token, { type: TOOL_TYPE, payloadText, registry: undefined }),
    );
    if (reply.is !== 'accepted') throw new Error(JSON.stringify(reply));
    return token;
  };
  return {
    servers,
    backend,
    records,
    folder,
    lines: (name) => {
      try {
        return readFileSync(join(folder, name), 'utf8').trim().split('\n');
      } catch {
        return [];
      }
    },
    begin,
    end,
    call: async (tool, args) => end(await begin(tool, args)),
  };
}

/** The result of a call that has ended well for the job. */
export function resultIn(end: FollowEnd): { ok: boolean; text: string; why?: string } {
  if (end.is !== 'ended' || end.outcome.ok !== true) throw new Error(JSON.stringify(end));
  return JSON.parse(end.outcome.resultText);
}

export const errorIn = (end: FollowEnd): string | undefined =>
  end.is === 'ended' && end.outcome.ok === false ? end.outcome.error.code : undefined;

/** Waits for something that nothing announces. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const look = async (): Promise<true | undefined> => ((await isSo()) ? true : undefined);
  const seen = await poll(realEnv(), { everyMs: 5, atMostMs: 20_000 }, look);
  if (!seen) throw new Error('it did not happen');
}
