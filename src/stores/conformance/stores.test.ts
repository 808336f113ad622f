/** Every store of the registry, opened by its own harness for the one suite. */
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
import type { Story } from './opened.ts';
import { type Stories, storeConformance } from './suite.ts';

/** Before anything else: a test run ends as soon as all tests have that are known by then. */
const loaded: readonly Harnesses[] = await Promise.all(
  Object.keys(STORES).map(async (name) => (await import(`../${name}/harness.ts`)).harnesses),
);

const PATIENCE_MS = 5000;

/** One server for all, started with the first that needs it. */
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
    const timer = setTimeout(() => reject(new Error('it waits for ever')), PATIENCE_MS);
    await Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
  },
};

test('[NEWS-14] every store of this repository is in the list: embedded or a real server, they pass the same suite', () => {
  const folders = readdirSync(join(import.meta.dirname, '..'), { withFileTypes: true });
  const stores = folders.filter(
    (item) => item.isDirectory() && !['conformance', 'migration'].includes(item.name),
  );
  assert.deepEqual(stores.map(({ name }) => name).sort(), Object.keys(STORES).sort());
});

/** Walks of an engine as they were, to be told again on each store. */
function recordedStories(): Stories {
  const stories: Story[] = [];
  for (const commands of fc.sample(walkCommands(400), { numRuns: 4, seed: 11 })) {
    // What leaves memory is the store's own matter.
    const walked = walk(commands.filter(({ kind }) => kind !== 'indexed'));
    stories.push(walked.events);
  }
  return { settings: WALK_SETTINGS, stories };
}

const stories = recordedStories();
for (const harnesses of loaded) {
  for (const [title, make] of Object.entries(harnesses)) storeConformance(title, () => make(kit), stories);
}
