/**
 * An agent in a process of its own: `agent-main.ts SPOOL LEDGER TTL_MS [GATE]`. Its handler notes that it begins, with an id
 * of the execution that is also its result, and that a result was there already; with GATE it ends when that file exists.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { SpoolAgent } from '../../../src/daemons/spool/agent.ts';
import type { JobHandler } from '../../../src/daemons/spool/handler.ts';
import { realEnv } from '../../../src/kit/env/real.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { poll } from '../../../src/kit/poll.ts';
import { realHost } from '../../../src/kit/process/host.ts';
import { openSpool } from '../../../src/spool/spool.ts';

const [folder = '', ledger = '', ttl = '', gate] = process.argv.slice(2);
const env = realEnv();
const logger = createLogger({ write: (line) => void process.stdout.write(line), now: () => Date.now() });
const host = realHost(() => Date.now());
const settings = { foreignLockTtlMs: Number(ttl) };
const spool = await openSpool({ env, host, logger, folder, settings });

const handler: JobHandler = async ({ name, folder: job }) => {
  const execution = randomUUID();
  const late = fs.existsSync(join(job, 'result.json')) ? `late ${name}\n` : '';
  fs.appendFileSync(ledger, `${late}begin ${name} ${execution}\n`);
  if (gate !== undefined)
    await poll(env, { everyMs: 10, atMostMs: 600_000 }, () => (fs.existsSync(gate) ? true : undefined));
  return { ok: true, result: { execution } };
};

const agent = new SpoolAgent({ env, spool, handler, slots: 4, stopGraceMs: 10_000 });
process.once('SIGTERM', () => void agent.stop().then(() => process.exit(0)));
await agent.start();
