/**
 * Loaded into a process with `--import`: holds it at the crash point of HOLD_POINT, once the file HOLD_MARK.armed is there.
 * It writes the file HOLD_MARK, and stands still until HOLD_MARK.go is there or somebody kills it. It also shortens the
 * pauses between looks at a provider.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { PROVIDER_TIMES } from '../../../src/daemons/gateway/drivers/provider-api.ts';
import { armCrashpoints } from '../../../src/kit/crashpoint.ts';

const { HOLD_POINT: point, HOLD_MARK: mark = '' } = process.env;
const cell = new Int32Array(new SharedArrayBuffer(4));

Object.assign(PROVIDER_TIMES, { polls: { baseDelayMs: 20, maxDelayMs: 100, jitter: 0 }, findMs: 1500 });
if (point !== undefined) {
  armCrashpoints((name) => {
    if (name !== point || !existsSync(`${mark}.armed`) || existsSync(mark)) return;
    writeFileSync(mark, '');
    while (!existsSync(`${mark}.go`)) Atomics.wait(cell, 0, 0, 5);
  });
}
