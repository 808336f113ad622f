/** Blob files that are gone: said at the start, shown by the API, and the jobs that need them come to an end. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { createOrchestrator, type Orchestrator } from '../../src/index.ts';
import { createLogger } from '../../src/kit/logger.ts';
import { engineOf } from '../fakes/engine-of.ts';
import { httpBrain } from '../fakes/http-brain.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-blobs-'));
after(() => rmSync(root, { recursive: true, force: true }));

const LARGE = 'x'.repeat(10_000);
const backends = [{ name: 'local', types: { echo: () => LARGE } }];

async function start(data: string, logged: string[] = []): Promise<Orchestrator> {
  const logger = createLogger({ level: 'warn', now: Date.now, write: (line) => logged.push(line) });
  return createOrchestrator({ data, logger, backends });
}

/** A folder with a job that has ended and left memory, and one that waits for a type that nothing runs yet. */
async function folderWithBodies(name: string): Promise<string> {
  const data = join(root, name);
  const brain = await start(data);
  await brain.submit({ job_id: 'ended', type: 'echo', payload: LARGE });
  await brain.wait('ended');
  await brain.submit({ job_id: 'waits', type: 'later', payload: LARGE });
  while (engineOf(brain).state.jobs.size > 1) await new Promise((resolve) => setTimeout(resolve, 5));
  await brain.stop();
  return data;
}

function removeBlobs(data: string): string[] {
  const names = readdirSync(join(data, 'blobs'));
  assert.ok(names.length > 0);
  for (const name of names) rmSync(join(data, 'blobs', name));
  return names;
}

test('missing blob files are counted and named in a warning at the start, and only then', async () => {
  const data = await folderWithBodies('warned');
  const logged: string[] = [];
  await (await start(data, logged)).stop();
  assert.deepEqual(logged, []);
  const names = removeBlobs(data);
  await (await start(data, logged)).stop();
  assert.equal(logged.length, 1);
  const { level, reason, count, event } = JSON.parse(logged.join());
  assert.deepEqual([level, count, event], ['warn', names.length, { type: 'blob-files-missing' }]);
  for (const name of names) assert.ok(reason.includes(name), reason);
});

test('the API shows how many blob files were missing', async () => {
  const data = await folderWithBodies('shown');
  const names = removeBlobs(data);
  const brain = await httpBrain({ data, backends });
  try {
    const health = (await (await fetch(`${brain.url}/health`)).json()) as Record<string, unknown>;
    assert.deepEqual([health['status'], health['missing_blob_files']], ['degraded', names.length]);
    const client = new OrchdClient({ url: brain.url });
    await assert.rejects(client.get('ended'), { code: 'STORE_CORRUPT' });
  } finally {
    await brain.stop();
  }
});

test('a job whose body is missing dies with a clear code, and new bodies get no old number', async (t) => {
  const data = await folderWithBodies('dies');
  const names = removeBlobs(data);
  const later = [{ name: 'local', types: { echo: () => LARGE, later: () => 'done' } }];
  const brain = await createOrchestrator({ data, backends: later });
  t.after(() => brain.stop());
  const { state, error } = await brain.wait('waits');
  assert.deepEqual([state, error?.code], ['dead', 'STORE_CORRUPT']);
  assert.match(error?.message ?? '', /blobs\/\d+\.blob:\d+ is missing/);
  const { job_id } = await brain.submit({ type: 'echo', payload: LARGE });
  assert.equal((await brain.wait(job_id)).result, LARGE);
  const written = readdirSync(join(data, 'blobs'));
  assert.deepEqual(
    written.filter((name) => names.includes(name)),
    [],
  );
});
