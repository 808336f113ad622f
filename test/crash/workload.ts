/**
 * The child process of the crash tests: `workload.ts CASE_FOLDER [DATA_FOLDER]`, told more by its environment.
 *
 *   CRASH_AT=n CRASH_TORN=1   dies by SIGKILL right before the n-th operation, or in the middle of that write
 *   CRASH_CHAPTER=n           plays only that part of the script, on the folder that the part before left
 *   CRASH_MODE=recover        only opens the folder again, as far as start() goes
 *   CRASH_PACE=real           real time and the plain disk, for strace and power loss
 *   CRASH_NAMES=path          leaves the names of all operations there
 *   CRASH_DATABASE=url        keeps the data in that database; statements are operations too
 */
import fs from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Hundreds of these are started from a copy made ready (child-code.ts); what they run stays the same.
if (import.meta.filename.endsWith('.js')) enableCompileCache(join(import.meta.dirname, 'compiled'));

const { main } = await import('./workload-main.ts');
const { env, argv } = process;
await main({
  root: argv[2] as string,
  data: argv[3],
  database: env['CRASH_DATABASE'],
  kill: { at: Number(env['CRASH_AT'] ?? 0), torn: env['CRASH_TORN'] === '1' },
  mode: env['CRASH_MODE'] === 'recover' ? 'recover' : 'play',
  pace: env['CRASH_PACE'] === 'real' ? 'real' : 'steady',
  startAt: env['CRASH_START'] === undefined ? undefined : Number(env['CRASH_START']),
  chapter: env['CRASH_CHAPTER'] === undefined ? undefined : Number(env['CRASH_CHAPTER']),
  onNames: (names) => {
    if (env['CRASH_NAMES'] !== undefined) fs.writeFileSync(env['CRASH_NAMES'], JSON.stringify(names));
  },
});
