/** The catalog as its operators have it: what they say of a model stays, until they say something else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { testFolder } from './server-process.ts';
import { Client } from './site-client.ts';

const PATH = '/v2/catalog/models';

test('[ORCH-1080] what was said of a model is kept, changed by what is said next, and outlives a restart', async (t) => {
  const data = testFolder(t);
  let brain: HttpBrain = await httpBrain({ data });
  t.after(() => brain.stop());
  const client = new Client(brain.url);
  const said = {
    model_id: 'm',
    name: 'One',
    model_ref: 'hf:org/m',
    size_bytes: 12_345,
    context_length: 777,
  };
  assert.partialDeepStrictEqual(await client.done('POST', PATH, said), {
    ...said,
    lifecycle_state: 'Active',
  });
  const changed = { ...said, name: 'Two', size_bytes: 23_456, context_length: 888 };
  await client.done('POST', PATH, changed);
  assert.partialDeepStrictEqual(await client.done('GET', `${PATH}/m`), {
    ...changed,
    lifecycle_state: 'Active',
  });
  await client.done('POST', `${PATH}/m/state`, { state: 'Retired' });
  const before = await client.done('GET', `${PATH}/m`);
  assert.partialDeepStrictEqual(before, { ...changed, lifecycle_state: 'Retired' });
  for (const from of ['log', 'checkpoint']) {
    if (from === 'checkpoint') await brain.orchestrator.checkpoint();
    await brain.stop();
    brain = await httpBrain({ data });
    assert.deepEqual(await new Client(brain.url).done('GET', `${PATH}/m`), before, from);
  }
});
