/**
 * A node of a cluster in a process of its own: `leader-node.ts NODE FOLDER DATABASE [REDIS]`. It tells its parent where it listens,
 * and dies where the parent says: at the n-th pass of a crash point from then on.
 */
import { join } from 'node:path';
import { Agents } from '../../src/agents/agents.ts';
import { FolderMeter } from '../../src/app/folder-meter.ts';
import { ClusterNode } from '../../src/app/node.ts';
import type { ServerParts } from '../../src/app/parts.ts';
import { FunctionBackend } from '../../src/backends/local/functions.ts';
import { loadConfig } from '../../src/config/load.ts';
import { ByteRoom } from '../../src/kit/byte-room.ts';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { configuredStore } from '../../src/stores/registry.ts';
import { Tally } from '../../src/telemetry/tally.ts';
import { TOKEN_FILE, TokenFile } from '../../src/wire/token-file.ts';
import { HELPER, notedTools, twoToolModel } from './noted-tools.ts';

/** The point `tools` is in the middle of a call of a tool. */
export interface DeathOrder {
  readonly point: string;
  readonly pass: number;
}

const [node, folder, url, redis] = process.argv.slice(2) as [string, string, string, string?];

let order: DeathOrder | undefined;
let passes = 0;

function pass(point: string): void {
  if (point === order?.point && ++passes === order.pass) process.kill(process.pid, 'SIGKILL');
}

process.on('message', (given: DeathOrder) => {
  order = given;
  passes = 0;
  process.send?.({ armed: given.point });
});
process.on('disconnect', () => process.exit());
armCrashpoints(pass);

const env = realEnv();
const config = loadConfig({
  text: JSON.stringify({
    store: 'mariadb',
    mariadb: { url },
    // Nobody waits for the end of this lease: the connection of a leader that dies ends with it.
    cluster: { node, lease_ms: 600_000, hold_ms: 60_000 },
    orchestrator: { recovery: { holder_lost_ms: 2000, sweep_interval_ms: 200 } },
    backends: { demo: false },
    agents: [HELPER],
    ...(redis !== undefined && { redis: { url: redis, claim_idle_ms: 1000 } }),
  }),
});
const data = join(folder, node);
const logger = createLogger({ write: () => undefined, now: () => env.clock.now(), level: 'error' });
const tally = new Tally({ algorithm: config.placement.algorithm });
const sleep = async (ms: number): Promise<void> => {
  pass('tools');
  await new Promise<void>((resolve) => env.timers.after(ms, resolve));
};
const parts: ServerParts = {
  options: {
    config,
    data,
    version: '0.0.0',
    logger,
    host: '127.0.0.1',
    port: 0,
    backends: [new FunctionBackend(env, twoToolModel().backend())],
  },
  env,
  host: '127.0.0.1',
  runsCommands: false,
  tokens: new TokenFile(env, join(data, TOKEN_FILE), logger, true),
  uptimeMs: () => env.clock.monotonic(),
  tally,
  folderMeter: new FolderMeter({ folder: data, parts: {}, env, tally: tally.storage }),
  answerRoom: new ByteRoom(config.server.maxAnswerBytesInFlight),
  agents: new Agents({
    env,
    logger,
    agents: config.agents,
    tools: notedTools(join(folder, 'tools.jsonl'), sleep),
  }),
};
const leadership = configuredStore(config).leadership?.(env, config);
if (!leadership) throw new Error('the store has no leader');
await env.disk.makeFolder(data);
const server = new ClusterNode(parts, leadership);
await server.start();
process.send?.({ url: server.url });
