/** Runs the conformance suite on every backend of this repository, and on the fake executor of the simulation. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { steeredExecutor } from '../../../test/fakes/steered-executor.ts';
import type { Harnesses } from './harness.ts';
import { backendConformance, PROMISES } from './suite.ts';

const HARNESSES = join(import.meta.dirname, '../../../test/backends');

/** Loaded before the first test is declared: a test run ends as soon as all tests declared so far have ended. */
const loaded: readonly Harnesses[] = await Promise.all(
  readdirSync(HARNESSES).map(async (name) => (await import(join(HARNESSES, name))).harnesses),
);

/** The class name of each backend under src/backends → its harnesses; a class with several has `(…)` behind its name. */
const BACKENDS: Harnesses = Object.assign({}, ...loaded);
for (const source of Object.values(BACKENDS)) after(() => source.stop?.());

/** The names of all classes below a folder that implement Backend. */
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

test('every backend of this repository has a harness', () => {
  const shown = new Set(Object.keys(BACKENDS).map((name) => name.replace(/ \(.*\)$/, '')));
  assert.deepEqual(backendClasses(join(import.meta.dirname, '..')).sort(), [...shown].sort());
});

test('no two promises have the same title', () => {
  assert.equal(new Set(PROMISES.map(({ title }) => title)).size, PROMISES.length);
});

for (const [name, source] of Object.entries(BACKENDS)) backendConformance(name, () => source.harness());
backendConformance('fake', steeredExecutor);
