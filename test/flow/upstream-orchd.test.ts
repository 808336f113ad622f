/** Another orchd as the upstream, killed and started again with other models while jobs run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serveAt, serveUpstreams, upstreamFolder } from './upstream-kit.ts';

const behindWith = (models: readonly string[]): object => {
  const inference = { argv: ['sh', '-c', 'sleep 0.1; echo "by $JOB_MODEL"'] };
  return { backends: { demo: false, commands: [{ name: 'sh', slots: 4, models, types: { inference } }] } };
};

test('another orchd is killed under load and comes back with other models: every job is answered, the models follow', {
  timeout: 120_000,
}, async (t) => {
  const folder = upstreamFolder(t);
  let behind = await serveAt(t, { data: folder, config: behindWith(['stays', 'goes']) });
  const { port } = behind;
  const { api } = await serveUpstreams(t, [{ url: behind.url, name: 'up' }]);
  await api.untilModels('stays', 'goes');
  const ids = await Promise.all(
    Array.from({ length: 60 }, (_, n) => api.submit({ model: 'stays', prompt: `${n}` })),
  );
  await api.ended(ids[0] as string);
  await behind.kill();
  await api.untilBackend(({ up }) => !up);
  behind = await serveAt(t, { data: folder, port, config: behindWith(['stays', 'comes']) });
  await api.untilModels('stays', 'comes');
  for (const id of ids) {
    const { state, result } = await api.ended(id);
    assert.equal(state, 'succeeded');
    assert.match(JSON.stringify(result), /by stays/);
  }
  const gone = await api.post('/v2/tasks', { model: 'goes', prompt: 'Hello' });
  assert.deepEqual([gone.status, gone.body.error.code], [404, 'MODEL_NOT_FOUND']);
  const messages = [{ role: 'user', content: 'Hello' }];
  const chat = await api.post('/v1/chat/completions', { model: 'comes', messages });
  assert.match(chat.body.choices[0].message.content, /by comes/);
});
