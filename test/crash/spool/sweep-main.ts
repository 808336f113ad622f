/** One sweep of a spool by a process of its own, `sweep-main.ts SPOOL`: prints what it has done. */
import { realEnv } from '../../../src/kit/env/real.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { realHost } from '../../../src/kit/process/host.ts';
import { Actor } from '../../../src/spool/actor.ts';
import { Heartbeats } from '../../../src/spool/owner.ts';
import { sweepSpool } from '../../../src/spool/repair.ts';
import { openSpool } from '../../../src/spool/spool.ts';

const logger = createLogger({ write: () => undefined, now: () => Date.now() });
const host = realHost(() => Date.now());
const spool = await openSpool({ env: realEnv(), host, logger, folder: process.argv[2] as string });
const watchdog = await Actor.open(spool, 'watchdog');
const { jobs } = await sweepSpool(watchdog, new Heartbeats(() => 0));
await watchdog.close();
console.log(JSON.stringify(jobs));
