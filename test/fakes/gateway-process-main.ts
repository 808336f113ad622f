/**
 * A gateway in a process of its own whose seats call a TagProvider. The driver's name says how a call is found again:
 * `openai-chat` by its tag, `openai-responses` by its id, the others not at all. A seat whose URL has the path `/threads`
 * is one of a ThreadProvider. It kills itself at the crash point in
 * CRASH_AT. Arguments: folder and port.
 */
import type { Driver, DriverAbilities, DriverCall, EarlierCall } from '../../src/daemons/gateway/driver.ts';
import { Gateway } from '../../src/daemons/gateway/gateway.ts';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { Secret } from '../../src/kit/secret.ts';
import { OrchdError } from '../../src/model/errors.ts';
import type { SeatOrder } from '../../src/model/gateway-wire.ts';
import type { ExecutionResult } from '../../src/model/worker-wire.ts';
import { threadDriver } from './thread-driver.ts';

const FINDS: Partial<Record<SeatOrder['driver'], DriverAbilities['finds']>> = {
  'openai-chat': 'token',
  'openai-responses': 'id',
};

const usage = { prompt_tokens: 1, completion_tokens: 2 };

async function run(
  url: string,
  { request, tag, signal, keepId, emit }: DriverCall,
): Promise<ExecutionResult> {
  const prompt = request.work.kind === 'completion' ? request.work.prompt : '';
  const reply = await fetch(url, { method: 'POST', body: JSON.stringify({ tag, prompt }), signal });
  if (!reply.ok) throw new OrchdError('EXECUTION_FAILED', 'the provider refuses it');
  let text = '';
  let rest = '';
  for await (const bytes of reply.body as AsyncIterable<Uint8Array>) {
    const lines = (rest + Buffer.from(bytes).toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const said = JSON.parse(line);
      if (said.id) await keepId(said.id);
      if (said.piece) emit({ text: said.piece });
      text = said.text ?? text;
    }
  }
  return { text, usage };
}

async function resume(
  url: string,
  finds: DriverAbilities['finds'],
  { id, tag, signal }: EarlierCall,
): Promise<ExecutionResult> {
  const query =
    finds === 'token' ? `tag=${tag}` : finds === 'id' && id !== undefined ? `id=${id}` : undefined;
  if (query === undefined) throw new OrchdError('UNKNOWN_OUTCOME');
  const reply = await fetch(`${url}?${query}`, { signal });
  if (reply.status !== 200) throw new OrchdError('UNKNOWN_OUTCOME');
  return { text: ((await reply.json()) as { text: string }).text, usage };
}

function driverOf(order: SeatOrder): Driver {
  const { driver, url } = order;
  if (new URL(url).pathname === '/threads') return threadDriver(order);
  const finds = FINDS[driver] ?? 'nothing';
  return {
    abilities: { finds, keepsMs: 0, cancels: 'disconnect', billsWhenCut: true },
    run: (call) => run(url, call),
    resume: (call) => resume(url, finds, call),
    close: () => undefined,
  };
}

const { CRASH_AT, GATEWAY_TOKEN } = process.env;
if (CRASH_AT !== undefined) {
  armCrashpoints((name) => {
    if (name === CRASH_AT) process.kill(process.pid, 'SIGKILL');
  });
}
const [, , folder = '', port = '0'] = process.argv;
const env = realEnv();
const gateway = new Gateway({
  env,
  logger: createLogger({
    write: (line) => void process.stderr.write(line),
    now: () => Date.now(),
    level: 'error',
  }),
  folder,
  host: '127.0.0.1',
  port: Number(port),
  token: GATEWAY_TOKEN === undefined ? undefined : new Secret(GATEWAY_TOKEN),
  launch: 'test',
  drivers: driverOf,
});
process.on('SIGTERM', () => void gateway.drain(0));
await gateway.start();
process.stdout.write(`listens on ${gateway.url}\n`);
await gateway.ended;
await gateway.stop();
process.exit(0);
