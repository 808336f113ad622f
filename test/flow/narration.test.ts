/** The log as a story that a person can read, job by job. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { until } from './cli-process.ts';

test('admission, placement, the beginning of the stream and its end are told in words, however a job ends', async (t) => {
  const hang = (_: never, { signal }: FunctionContext) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', reject));
  const fail = () => {
    throw Object.assign(new Error('no'), { retriable: false });
  };
  const brain = await httpBrain({
    backends: [{ name: 'b', slots: 3, types: { good: () => 1, hang, fail } }],
  });
  t.after(() => brain.stop());
  const story = (id: string): string[] =>
    brain.logged
      .map((line) => JSON.parse(line))
      .filter((line) => line.job_id === id)
      .map((line) => line.message);
  for (const [type, end] of [
    ['good', /done.*the stream ends/],
    ['hang', /cancelled.*the stream ends/],
    ['fail', /dead.*the stream ends/],
  ] as const) {
    await brain.orchestrator.submit({ job_id: type, type });
    if (type === 'hang') {
      await until(async () => (await brain.orchestrator.get('hang')).state === 'running');
      await brain.orchestrator.cancel('hang');
    }
    await until(() => end.test(story(type).at(-1) ?? ''));
    const [admission, placement, beginning] = story(type);
    assert.match(admission!, /^The job was admitted\.$/);
    assert.match(placement!, /^A backend was chosen /);
    assert.match(beginning!, /the stream begins\.$/);
  }
  for (const line of brain.logged) assert.match(JSON.parse(line).message, /^[A-Z].*\.$|^[a-z ]+$/);
});
