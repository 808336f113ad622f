/** orchd in this process, and consumers in processes of their own that hear of work over Redis, or ask for it by long poll. */
import { consumerRoutes } from '../../src/api/consumers.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { LOOPBACK_HOSTS } from '../../src/wire/access-gate.ts';
import { HttpServer } from '../../src/wire/http-server.ts';
import { type BackgroundProcess, startProcess } from '../kit/background-process.ts';
import { now } from '../kit/numbers.ts';
import { type ConsumerArgs, sharedNow, start } from './consumer-process.ts';
import type { OrchdOptions } from './orchd.ts';
import { openPulledBrain } from './pulled-brain.ts';
import type { JobBody, System } from './system.ts';

const CONSUMERS = 4;
const ID_BYTES = 16;

const silent = createLogger({ write: () => undefined, now: () => 0 });

export interface ConsumersOptions extends OrchdOptions {
  readonly redisUrl?: string | undefined;
}

/** `slots` are shared out over the consumers. */
export async function openOrchdConsumers(
  folder: string,
  slots: number,
  options: ConsumersOptions,
): Promise<System> {
  const { orchestrator, stop, env } = await openPulledBrain(folder, options);
  const http = new HttpServer({
    host: '127.0.0.1',
    port: 0,
    random: env.random,
    timers: env.timers,
    logger: silent,
    gate: { allowedHosts: LOOPBACK_HOSTS, allowedOrigins: [], tokens: () => [], openWithoutTokens: true },
    routes: consumerRoutes(orchestrator, () => env.random.hex(ID_BYTES)),
  });
  await http.start();
  const module = { start, url: new URL('./consumer-process.ts', import.meta.url).href };
  let processes: BackgroundProcess<true>[] = [];
  const end = async (): Promise<void> => {
    await Promise.all(processes.map((each) => each[Symbol.asyncDispose]()));
    processes = [];
  };
  const job = (payload: JobBody) => ({
    type: 'bench',
    backend: 'consumers',
    payload,
    wait_for_backend: true,
  });
  const submit = async (payload: JobBody): Promise<string> => {
    const { job_id } = await orchestrator.submit(job(payload));
    return job_id;
  };
  const hearStart = async (payload: JobBody, id: string, sentAt: number): Promise<void> => {
    const { result } = await orchestrator.getResult((await orchestrator.wait(id)).job_id);
    // It began in another process: told as if it had begun so long ago here.
    system.onStart({ ...payload, t: now() - (Number(result) - sentAt) });
  };
  const system: System = {
    servers: options.servers ?? [],
    onStart: () => undefined,
    async submit(payload) {
      const sentAt = sharedNow();
      const id = await submit(payload);
      void hearStart(payload, id, sentAt);
    },
    async submitMany(payloads) {
      await orchestrator.submitMany(payloads.map(job));
    },
    async cycle(payload) {
      await orchestrator.wait(await submit(payload));
    },
    async work() {
      if (processes.length > 0) return;
      const { redisUrl } = options;
      const url = `http://127.0.0.1:${http.port}`;
      const args: ConsumerArgs = {
        url,
        slots: slots / CONSUMERS,
        ...(redisUrl !== undefined && { redisUrl }),
      };
      const names = Array.from({ length: CONSUMERS }, (_, at) => `consumer-${at}`);
      processes = await Promise.all(names.map((name) => startProcess(name, module, args)));
    },
    rest: end,
    async close() {
      await end();
      await http.stop();
      await stop();
    },
  };
  return system;
}
