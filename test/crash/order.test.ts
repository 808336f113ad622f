/** The order of what the brain does to its disk, says and orders, over the whole workload. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { foldersOf, makeFolders, scratchFolder } from './folders.ts';
import { checkOrder } from './order-rules.ts';
import { recordWorkload } from './record.ts';
import { checkCase } from './recovering.ts';
import type { TraceEvent } from './trace.ts';

const scratch = scratchFolder('orchd-order-');
after(() => fs.rmSync(scratch, { recursive: true, force: true }));

/** A disk that is slower than retries and pauses lets more happen while a frame is on its way. */
for (const callMs of [0, 1, 15, 600]) {
  test(`nothing is said, done or dropped too early on a disk that takes ${callMs} ms`, async () => {
    const folders = makeFolders(foldersOf(join(scratch, String(callMs))));
    const events = await recordWorkload(folders, callMs);
    const { problems, counts } = checkOrder(events);
    console.log(`# ${events.length} events: ${JSON.stringify(counts)}`);
    assert.deepEqual(problems, []);
    for (const [what, count] of Object.entries(counts)) assert.ok(count > 0, `the workload has no ${what}`);
    assert.deepEqual((await checkCase(folders)).problems, []);
  });
}

/** Each rule is seen to fail where its event is taken out or moved. */
test('the rules notice what is missing', async () => {
  const folders = makeFolders(foldersOf(`${scratch}/again`));
  const events = await recordWorkload(folders);
  const without = (gone: (event: TraceEvent) => boolean): number =>
    checkOrder(events.filter((event) => !gone(event))).problems.length;
  const isSync = (event: TraceEvent, path: RegExp): boolean => event.is === 'sync' && path.test(event.path);
  assert.ok(without((event) => isSync(event, /^log\/\d/)) > 0);
  assert.ok(without((event) => isSync(event, /^log\/spare/)) > 0);
  assert.ok(without((event) => isSync(event, /^blobs/)) > 0);
  assert.ok(without((event) => isSync(event, /\.part$/)) > 0);
  assert.ok(without((event) => isSync(event, /tmp$/)) > 0);
  for (const folder of ['.', 'log', 'blobs', 'checkpoints']) {
    assert.ok(without((event) => event.is === 'sync-folder' && event.path === folder) > 0, folder);
  }
});
