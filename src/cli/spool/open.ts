/** Opens the spool that a command line names, and the actor of a person in it. */
import { resolve } from 'node:path';
import type { Logger } from '../../kit/logger.ts';
import type { Actor } from '../../spool/actor.ts';
import type { Spool, SpoolOptions, SpoolSettings } from '../../spool/spool.ts';

/** A command of a person says what it does itself. */
async function quietLogger(): Promise<Logger> {
  const { createLogger } = await import('../../kit/logger.ts');
  return createLogger({ write: () => undefined, now: () => Date.now() });
}

export async function spoolOptions(
  folder: string,
  logger?: Logger,
  settings: Partial<SpoolSettings> = {},
): Promise<SpoolOptions> {
  const { diskWorkerEnv } = await import('../../kit/env/real.ts');
  const { realHost } = await import('../../kit/process/host.ts');
  const env = diskWorkerEnv();
  const host = realHost(() => env.clock.now());
  return { env, host, logger: logger ?? (await quietLogger()), folder: resolve(folder), settings };
}

export async function openSpoolAt(folder: string): Promise<Spool> {
  const { openSpool } = await import('../../spool/spool.ts');
  return openSpool(await spoolOptions(folder));
}

/** Does something as a person who works on the spool. */
export async function asPerson<T>(spool: Spool, work: (person: Actor) => Promise<T>): Promise<T> {
  const { Actor } = await import('../../spool/actor.ts');
  const person = await Actor.open(spool, 'person');
  try {
    return await work(person);
  } finally {
    await person.close();
  }
}
