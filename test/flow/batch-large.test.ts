/**
 * A large file of jobs is checked in memory that does not grow with it. `ORCHD_FILE_MIB=1024` makes it a GiB, which takes
 * about ten seconds.
 */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { orchd } from './cli-process.ts';

const FILE_MIB = Number(process.env['ORCHD_FILE_MIB'] ?? 192);
/** Far less than the file, and more than the garbage collector may leave for later. */
const MAX_GROWTH_MIB = 64;
const MIB = 2 ** 20;

/** Prints the most memory that the process had, in KiB. */
const REPORT = "process.on('exit',()=>process.stderr.write('peak:'+process.resourceUsage().maxRSS))";

test('the memory of a check does not grow with the file, and a bad last line is found', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-large-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'jobs.jsonl');
  const lines = `${JSON.stringify({ prompt: 'x'.repeat(1024 - 14) })}\n`.repeat(1024);
  assert.equal(lines.length, MIB);
  const peakMib = async (says: RegExp): Promise<number> => {
    const report = `--import=data:text/javascript,${encodeURIComponent(REPORT)}`;
    const { err } = await orchd(['submit', '--file', path, '--dry-run'], { env: { NODE_OPTIONS: report } });
    assert.match(err, says);
    return Number(/peak:(\d+)$/.exec(err)?.[1]) / 1024;
  };
  appendFileSync(path, lines);
  const small = await peakMib(/: 1,024 jobs, no fault/);
  truncateSync(path);
  for (let n = 0; n < FILE_MIB; n++) appendFileSync(path, lines);
  appendFileSync(path, '{"promt": "x"}');
  const last = FILE_MIB * 1024 + 1;
  const large = await peakMib(new RegExp(`jobs\\.jsonl:${last}: "promt" is not a known field`));
  t.diagnostic(`${small.toFixed(0)} MiB for 1 MiB, ${large.toFixed(0)} MiB for ${FILE_MIB} MiB`);
  assert.ok(large - small < MAX_GROWTH_MIB, `${small} MiB, then ${large} MiB`);
});
