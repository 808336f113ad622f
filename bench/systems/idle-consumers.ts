/** What consumers cost that hear of work over Redis and have none: commands of Redis, and memory of the brain. */
import { consumerRoutes } from '../../src/api/consumers.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { LOOPBACK_HOSTS } from '../../src/wire/access-gate.ts';
import { HttpServer } from '../../src/wire/http-server.ts';
import { startProcess } from '../kit/background-process.ts';
import type { Values } from '../kit/bench.ts';
import { sleep } from '../kit/numbers.ts';
import * as crowd from './consumer-crowd.ts';
import { openPulledBrain } from './pulled-brain.ts';
import { ownCommands } from './redis-commands.ts';

const ID_BYTES = 16;
const WAIT_MS = 20;
/** What these bring into memory is not theirs alone: compiled code, and lists that grow by steps. */
const FIRST = 40;
const COUNT = 80;
/** Time in which commands of Redis are counted. */
const COUNTED_SEC = 10;

export interface IdleArgs {
  readonly folder: string;
  readonly redisUrl: string;
  readonly quick: boolean;
}

export async function measure({ folder, redisUrl, quick }: IdleArgs): Promise<Values> {
  const { env, orchestrator, stop } = await openPulledBrain(folder, { redisUrl });
  const http = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    timers: env.timers,
    logger: createLogger({ write: () => undefined, now: () => 0 }),
    gate: { allowedHosts: LOOPBACK_HOSTS, allowedOrigins: [], tokens: () => [], openWithoutTokens: true },
    routes: consumerRoutes(orchestrator, () => env.random.hex(ID_BYTES)),
  });
  await http.start();
  const url = `http://127.0.0.1:${http.port}`;
  const present = async (): Promise<number> => (await orchestrator.consumers.list()).length;
  const gather = async (count: number) => {
    const before = await present();
    const module = { start: crowd.start, url: new URL('./consumer-crowd.ts', import.meta.url).href };
    const process = await startProcess('crowd', module, { url, redisUrl, count });
    while ((await present()) < before + count) await sleep(WAIT_MS);
    return process;
  };
  const first = await gather(FIRST);
  await sleep(quick ? 2000 : 6000);
  const before = memoryNow();
  const idleFrom = await ownCommands(redisUrl);
  await sleep(COUNTED_SEC * 1000);
  const alone = (await ownCommands(redisUrl)) - idleFrom;
  const many = await gather(COUNT);
  await sleep(quick ? 2000 : 6000);
  const after = memoryNow();
  const from = await ownCommands(redisUrl);
  await sleep(COUNTED_SEC * 1000);
  const all = (await ownCommands(redisUrl)) - from;
  for (const process of [many, first]) await process[Symbol.asyncDispose]();
  await http.stop();
  await stop();
  const kib = (of: keyof Memory): number => (after[of] - before[of]) / COUNT / 1024;
  return { redisPerSec: (all - alone) / COUNTED_SEC / COUNT, kib: kib('used'), rssKib: kib('rss') };
}

interface Memory {
  readonly used: number;
  readonly rss: number;
}

function memoryNow(): Memory {
  global.gc?.();
  global.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { used: heapUsed + external, rss };
}
