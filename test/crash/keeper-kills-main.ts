/**
 * A keeper that dies at a place: the environment names the crash point in KEEPER_DIES_AT, and in KEEPER_TAKES the file
 * `status` of the execution whose wrapper dies with it. Where KEEPER_WAITS names such a file, it dies only once the
 * wrapper has begun.
 */
import fs from 'node:fs';
import { readStatus } from '../../src/backends/local/command/wrapper.ts';
import { armCrashpoints } from '../../src/kit/crashpoint.ts';

const { KEEPER_DIES_AT, KEEPER_TAKES, KEEPER_WAITS } = process.env;

/** Nothing else of this process may go on meanwhile, so it waits without its event loop. */
function wrapperPid(status: string): number {
  for (;;) {
    const { pid } = fs.existsSync(status) ? readStatus(status) : { pid: undefined };
    if (pid !== undefined) return pid;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
  }
}

armCrashpoints((name) => {
  if (name !== KEEPER_DIES_AT) return;
  if (KEEPER_WAITS) wrapperPid(KEEPER_WAITS);
  if (KEEPER_TAKES) {
    try {
      process.kill(wrapperPid(KEEPER_TAKES), 'SIGKILL');
    } catch {
      // The wrapper had ended before.
    }
  }
  process.kill(process.pid, 'SIGKILL');
});

await import('../../src/backends/local/command/keeper-main.ts');
