/** A brain whose consumers hear of work over Redis, as a server has it, without the rest of a server. */
import { runtimeSettings } from '../../src/app/settings.ts';
import { RedisConnection } from '../../src/backends/stream/connection.ts';
import { RedisDoorbell } from '../../src/backends/stream/doorbell.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { storeFor } from '../../src/stores/registry.ts';
import { CONFIG } from '../kit/brain.ts';
import { sleep } from '../kit/numbers.ts';

const logger = createLogger({ write: () => undefined, now: () => 0 });
const POLL_MS = 10;

export interface PulledBrain {
  readonly env: Env;
  readonly orchestrator: Orchestrator;
  stop(): Promise<void>;
}

export interface PulledBrainOptions {
  readonly config?: string;
  readonly redisUrl?: string | undefined;
}

export async function openPulledBrain(folder: string, options: PulledBrainOptions): Promise<PulledBrain> {
  const { config: more = '', redisUrl } = options;
  const redis = redisUrl === undefined ? '' : `redis: { url: ${JSON.stringify(redisUrl)} }`;
  const config = loadConfig({ text: `${CONFIG}\n${more}\n${redis}` });
  const env = realEnv();
  const connection =
    redisUrl === undefined ? undefined : new RedisConnection({ env, logger, settings: config.redis });
  await connection?.start();
  while (connection && !connection.isUp) await sleep(POLL_MS);
  const { clock } = env;
  const doorbell = connection && new RedisDoorbell({ clock, logger, connection, ...config.redis });
  const store = storeFor(config, folder).open({ env, config, folder, logger, isCopy: false });
  const settings = runtimeSettings(config);
  const orchestrator = new Orchestrator({
    ...{ env, store, backends: [], settings, logger },
    ...(doorbell && { doorbell }),
  });
  await orchestrator.start();
  return {
    env,
    orchestrator,
    async stop() {
      await orchestrator.stop();
      await connection?.stop();
    },
  };
}
