/** An MCP server over HTTP, for the conformance suite: its calls are the works, its notifications of progress their text. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BackendHarness, Harnesses } from '../../src/backends/conformance/harness.ts';
import { McpBackend } from '../../src/backends/mcp/mcp-backend.ts';
import { ServerLink } from '../../src/backends/mcp/server-link.ts';
import { mcpSettings } from '../../src/backends/mcp/settings.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { jobOfToken } from '../../src/model/records.ts';
import { TOOL_TYPE } from '../../src/model/run-jobs.ts';
import { McpHttpServer } from '../fakes/mcp-http-server.ts';
import { MemoryRecords } from '../fakes/mcp-kit.ts';
import { harnessId, SteeredWorks, within } from '../fakes/steered-work.ts';

const WORK = { name: 'work', inputSchema: { type: 'object' } };

async function steeredServer(): Promise<BackendHarness> {
  const env = realEnv();
  const works = new SteeredWorks();
  const folder = mkdtempSync(join(tmpdir(), 'orchd-mcp-'));
  const server = await new McpHttpServer().start();
  server.tools.push(WORK);
  server.onCall = async ({ args, say, end, refuse }) => {
    const ordered = await works.of(String(args['job'])).run(args['payload'], say);
    if (ordered.ok) end({ content: [{ type: 'text', text: ordered.text }] });
    // Its session is gone, or its answer is none.
    else if (ordered.retriable) refuse(404);
    else end({ content: 'wrong' });
  };
  const [settings] = mcpSettings(
    [
      {
        name: 'http',
        url: server.url,
        slots: 2,
        restart_min_ms: 1,
        restart_max_ms: 10,
        max_output_bytes: 1_048_576,
      },
    ],
    {},
  );
  const make = async (): Promise<McpBackend> => {
    const onTools = async (): Promise<void> => undefined;
    const link = new ServerLink({
      env,
      logger: undefined,
      settings: settings!,
      folder,
      version: '0',
      onTools,
    });
    const permit = async (payload: unknown, job: string) => {
      const { connection } = await link.ready();
      return { tool: 'work', args: { job, payload }, hash: connection.tools.get('work')?.hash ?? '' };
    };
    const made = new McpBackend({ env, link, records: new MemoryRecords(), permit });
    await made.start();
    return made;
  };
  let backend = await make();
  const restart = async (): Promise<void> => {
    await backend.stop();
    backend = await make();
  };
  return {
    id: harnessId(),
    get backend() {
      return backend;
    },
    workType: TOOL_TYPE,
    unrunnable: ['other', 'constructor', 'toString', '__proto__'].map((type) => ({
      type,
      payloadText: '{}',
    })),
    now: () => env.clock.now(),
    execution: (token) => works.of(jobOfToken(token)),
    begun: (token) => works.of(jobOfToken(token)).runs,
    restartBrain: restart,
    loseMemory: restart,
    within,
    remove: async () => {
      await works.end();
      await backend.stop();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const harnesses: Harnesses = { McpBackend: { harness: steeredServer } };
