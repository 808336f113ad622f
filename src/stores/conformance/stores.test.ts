/** Runs the conformance suite on every store of the registry. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { WALK_SETTINGS, walk, walkCommands } from '../../../test/fakes/engine-walk.ts';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { realEnv } from '../../kit/env/real.ts';
import { STORES } from '../registry.ts';
import type { Harnesses, HarnessKit } from './harness.ts';
import type { RecordedEvents } from './opened.ts';
import { type Recordings, storeConformance } from './suite.ts';

/** Loaded before the first test is declared: the runner finishes once all tests that it has seen so far are done. */
const loaded: readonly Harnesses[] = await Promise.all(
  Object.keys(STORES).map(async (name) => (await import(`../${name}/harness.ts`)).harnesses),
);

/** Long enough for a busy machine: what never settles is late at any time. */
const PROMISE_TIMEOUT_MS = 60_000;

/** One database server for all stores, started when the first store needs it. */
let server: Promise<TestServer> | undefined;
after(async () => (await server)?.stop());

const kit: HarnessKit = {
  env: realEnv(),
  folder: () => {
    const path = mkdtempSync(join(tmpdir(), 'orchd-store-'));
    return { path, remove: async () => rmSync(path, { recursive: true, force: true }) };
  },
  database: async () => {
    server ??= testMariaDb();
    return (await server).database();
  },
  turns: async (count) => {
    for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  },
  within: async (promise) => {
    const { promise: tooLong, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error('the promise never settles')), PROMISE_TIMEOUT_MS);
    await Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
  },
};

test('every store of this repository is in the list: embedded or a real server, they pass the same suite', () => {
  const folders = readdirSync(join(import.meta.dirname, '..'), { withFileTypes: true });
  const stores = folders.filter(
    (item) => item.isDirectory() && !['conformance', 'migration'].includes(item.name),
  );
  assert.deepEqual(stores.map(({ name }) => name).sort(), Object.keys(STORES).sort());
});

/** Records the events of random walks of an engine, to be replayed on each store. */
function recordWalks(): Recordings {
  const runs: RecordedEvents[] = [];
  for (const commands of fc.sample(walkCommands(400), { numRuns: 4, seed: 11 })) {
    // Indexed events come from the store under test itself.
    const walked = walk(commands.filter(({ kind }) => kind !== 'indexed'));
    runs.push(walked.events);
  }
  return { settings: WALK_SETTINGS, runs };
}

const recordings = recordWalks();
for (const harnesses of loaded) {
  for (const [title, make] of Object.entries(harnesses)) storeConformance(title, () => make(kit), recordings);
}
