/**
 * Ours as a relay: a brain with its HTTP surface and a function as its backend, which reads the same upstream by
 * the way out that all backends take, and hands on every token.
 */
import { apiRoutes } from '../../src/api/api.ts';
import { loadConfig } from '../../src/config/load.ts';
import { createOrchestrator, type JobFunction } from '../../src/index.ts';
import type { Env } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { Tally } from '../../src/telemetry/tally.ts';
import { LOOPBACK_HOSTS } from '../../src/wire/gate.ts';
import { HttpServer } from '../../src/wire/http-server.ts';
import { Outbound } from '../../src/wire/outbound.ts';
import { eachEvent } from '../../src/wire/sse.ts';
import { CONFIG } from '../kit/brain.ts';

/** More streams than any shape opens. */
const STREAMS = 10_000;

export interface RelayOrchdArgs {
  readonly folder: string;
  readonly upstream: number;
}

/** The port. */
export async function start({ folder, upstream }: RelayOrchdArgs): Promise<number> {
  const env = realEnv();
  const { server, queue, placement } = loadConfig({ text: CONFIG });
  const logger = createLogger({ write: () => undefined, now: () => Date.now() });
  const types = { relay: relayFrom(env, upstream) };
  const backends = [{ name: 'relay', slots: STREAMS, types }];
  const orchestrator = await createOrchestrator({ env, data: folder, backends, config: CONFIG, logger });
  const http = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    logger,
    limits: { maxConnections: STREAMS },
    gate: { hosts: LOOPBACK_HOSTS, origins: [], tokens: () => [], openWithoutTokens: true },
    routes: apiRoutes(orchestrator, {
      env,
      version: '0.0.0',
      store: 'journal',
      queuePolicy: queue.policy,
      queueCapacity: queue.capacity,
      leaseTtlMs: 3_600_000,
      heartbeatMs: server.heartbeatMs,
      disconnectGraceMs: server.disconnectGraceMs,
      maxStreamsPerCaller: STREAMS,
      verifyPolicy: 'warn',
      uptimeMs: () => env.clock.monotonic(),
      tally: new Tally({ algorithm: placement.algorithm }),
    }),
  });
  return (await http.listen()).port;
}

/** Returns how many tokens upstream says it has sent. */
function relayFrom(env: Env, upstream: number): JobFunction {
  const outbound = new Outbound({ timers: env.timers, limits: { maxStreams: STREAMS } });
  const target = outbound.to(`http://127.0.0.1:${upstream}`);
  return async ({ path }: { readonly path: string }, { emit, signal }) => {
    const reply = await target.stream({ path, signal });
    let sent: number | undefined;
    await eachEvent(reply, ({ event, data }) => {
      const { t, result } = JSON.parse(data) as { t: string; result?: number };
      if (event === 'end') sent = result;
      else emit(t);
    });
    if (sent === undefined) throw new Error('the stream was cut off');
    return sent;
  };
}
