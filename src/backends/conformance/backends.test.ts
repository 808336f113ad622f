/** Every backend of this repository, and the fake executor of the simulation, on the one suite. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SharedCommands } from '../../../test/fakes/steered-commands.ts';
import { steeredExecutor } from '../../../test/fakes/steered-executor.ts';
import { steeredFunctions } from '../../../test/fakes/steered-functions.ts';
import { SharedWorker } from '../../../test/fakes/steered-worker.ts';
import type { BackendHarness } from './harness.ts';
import { backendConformance, PROMISES } from './suite.ts';

const commands = new SharedCommands();
after(() => commands.stop());
const worker = new SharedWorker();
after(() => worker.stop());

/** Class under src/backends → how the suite gets one. */
const BACKENDS: Readonly<Record<string, () => Promise<BackendHarness>>> = {
  FunctionBackend: steeredFunctions,
  CommandBackend: () => commands.harness(),
  WorkerBackend: () => worker.harness(),
};

/** The classes below a folder that say that they are a backend. */
function backendClasses(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .flatMap((path) => {
      const text = readFileSync(join(folder, path), 'utf8');
      return [...text.matchAll(/class (\w+)[^{]*\bimplements\b[^{]*\bBackend\b/g)].map(
        (match) => match[1] as string,
      );
    });
}

test('every backend of this repository is in the list', () => {
  assert.deepEqual(backendClasses(join(import.meta.dirname, '..')).sort(), Object.keys(BACKENDS).sort());
});

test('no two promises have the same title', () => {
  assert.equal(new Set(PROMISES.map(({ title }) => title)).size, PROMISES.length);
});

for (const [name, make] of Object.entries(BACKENDS)) backendConformance(name, make);
backendConformance('fake', steeredExecutor);
