/** A gateway as `orchd gateway` runs it, with one seat that has as many slots as the bench needs. */
import { driverOf } from '../../src/daemons/gateway/drivers/registry.ts';
import { Gateway } from '../../src/daemons/gateway/gateway.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { SEAT } from '../load/protocols.ts';
import { MODEL } from './pool-stub.ts';
import { type ExecutorArgs, type ExecutorPorts, SLOTS } from './worker-executor.ts';

const RESERVATION_MS = 4000;
const TIMEOUT_MS = 3_600_000;

export async function start({ folder, upstream }: ExecutorArgs): Promise<ExecutorPorts> {
  const env = realEnv();
  await env.disk.makeFolder(folder);
  const gateway = new Gateway({
    env,
    logger: createLogger({ write: () => undefined, now: () => Date.now() }),
    folder,
    host: '127.0.0.1',
    port: 0,
    drivers: (order) => driverOf(order, { env, folder }),
  });
  await gateway.start();
  const seat = {
    name: SEAT,
    driver: 'openai-chat',
    url: `http://127.0.0.1:${upstream}`,
    slots: SLOTS,
    models: { [MODEL]: MODEL },
    keep: false,
    preempt: false,
  } as const;
  gateway.follow({ seats: [seat], reservation_ms: RESERVATION_MS, timeout_ms: TIMEOUT_MS });
  const port = Number(new URL(gateway.url).port);
  return { port, forBrain: port };
}
