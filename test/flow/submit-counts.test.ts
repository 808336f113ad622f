/** Submits are counted by the brain, whichever way they come. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/index.ts';
import type { SubmitRequest } from '../../src/model/submit.ts';
import { httpBrain } from '../fakes/http-brain.ts';

/** How one of the ways submits: a job alone, and jobs as one request. Refusals are ignored. */
interface Submits {
  one(request: SubmitRequest): Promise<unknown>;
  many(requests: readonly SubmitRequest[]): Promise<unknown>;
}

type Counts = Readonly<Record<string, number>>;

/** Submits what is admitted, what is known already and what is refused, and reads the counters. */
async function countsOf(t: TestContext, way: (brain: Brain) => Submits): Promise<Counts> {
  const brain = await httpBrain({ config: 'orchestrator: {queue_capacity: 4}' });
  t.after(() => brain.stop());
  const { one, many } = way(brain);
  await one({ job_id: 'a', type: 'nobody', wait_for_backend: true });
  await one({ job_id: 'a', type: 'nobody', wait_for_backend: true });
  await one({ job_id: 'a', type: 'another' });
  await one({ model: 'unheard-of', prompt: 'p' });
  await many([
    { job_id: 'a', type: 'nobody', wait_for_backend: true },
    { job_id: 'b', type: 'nobody', wait_for_backend: true },
    { model: 'unheard-of', prompt: 'p' },
  ]);
  await many(['c', 'd', 'e', 'f'].map((id) => ({ job_id: id, type: 'nobody', wait_for_backend: true })));
  const { accepted, duplicate, rejected } = brain.tally;
  return { accepted, duplicate, ...Object.fromEntries([...rejected].toSorted()) };
}

type Brain = Awaited<ReturnType<typeof httpBrain>>;
const refused = (): void => undefined;

const library = ({ orchestrator }: Brain): Submits => ({
  one: (request) => orchestrator.submit(request).catch(refused),
  many: (requests) => orchestrator.submitMany(requests),
});

const http = ({ url }: Brain): Submits => {
  const client = new OrchdClient({ url });
  return {
    one: (request) => client.submit(request).catch(refused),
    many: (requests) => client.submitMany(requests),
  };
};

test('submits through the library and through HTTP are counted the same, refusals too', async (t) => {
  const counts = await countsOf(t, library);
  assert.deepEqual(counts, {
    accepted: 4,
    duplicate: 2,
    JOB_CONFLICT: 1,
    MODEL_NOT_FOUND: 2,
    QUEUE_FULL: 2,
  });
  assert.deepEqual(await countsOf(t, http), counts);
});

test('a brain that has stopped counts what it refuses', async (t) => {
  const brain = await httpBrain();
  t.after(() => brain.stop());
  await brain.orchestrator.stop();
  await assert.rejects(brain.orchestrator.submit({ type: 'nobody', wait_for_backend: true }));
  await assert.rejects(
    brain.orchestrator.submitMany([
      { type: 'nobody', wait_for_backend: true },
      { type: 'nobody', wait_for_backend: true },
    ]),
  );
  assert.deepEqual([...brain.tally.rejected], [['SHUTTING_DOWN', 3]]);
});

test('what modules are refused is not reported job by job: they propose it again and again, and count it', async (t) => {
  const module = ({ orchestrator }: Brain): Submits => {
    const caller = { principal: 'module/m', isModule: true };
    return {
      one: (request) => orchestrator.submit(request, caller).catch(refused),
      many: (requests) => orchestrator.submitMany(requests, caller),
    };
  };
  const { accepted, duplicate, ...refusals } = await countsOf(t, module);
  assert.deepEqual([accepted, duplicate, refusals], [4, 2, {}]);
});
