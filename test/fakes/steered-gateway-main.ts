/**
 * A gateway in a process of its own with one seat, whose driver does what the parent orders and finds no call again.
 * Arguments: its folder, and the ledger, in which the driver writes the job of every call that it makes.
 */
import { appendFileSync } from 'node:fs';
import type { Driver } from '../../src/daemons/gateway/driver.ts';
import { Gateway } from '../../src/daemons/gateway/gateway.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { GatewayState } from '../../src/model/gateway-wire.ts';
import { seatOrder } from './fake-driver.ts';
import { SteeredRuns, say } from './steered-child.ts';
import { SLOTS } from './steered-news.ts';

const [, , folder = '', ledger = ''] = process.argv;
const runs = new SteeredRuns().obey();
const driver: Driver = {
  abilities: { finds: 'nothing', keepsMs: 0, cancels: 'disconnect', billsWhenCut: true },
  run({ request, ...context }) {
    appendFileSync(ledger, `${request.jobId}\n`);
    return runs.run(request, context);
  },
  resume: () => Promise.reject(new OrchdError('UNKNOWN_OUTCOME')),
  close: () => undefined,
};

const gateway = new Gateway({
  env: realEnv(),
  logger: createLogger({ write: () => undefined, now: () => Date.now() }),
  folder,
  host: '127.0.0.1',
  port: 0,
  drivers: () => driver,
});
process.on('SIGTERM', () => void gateway.drain(0));

/** Resolves with the registry when the calls of an earlier process have ended: no such call is found again. */
async function untilIdle(): Promise<string> {
  for (let after = ''; ; ) {
    const reply = await fetch(`${gateway.url}/seats?wait_ms=10000${after}`);
    const { version, registry, running } = (await reply.json()) as GatewayState;
    if (running === 0) return registry;
    after = `&after=${version}`;
  }
}

await gateway.start();
gateway.follow({
  seats: [seatOrder('seat', { slots: SLOTS, models: { steered: 'steered' } })],
  // Harnesses share the seat: a reservation of one must not stand in the way of the next.
  reservation_ms: 1,
  timeout_ms: 600_000,
});
say({ is: 'listens', url: gateway.url, registry: await untilIdle() });
await gateway.ended;
await gateway.stop();
process.exit(0);
