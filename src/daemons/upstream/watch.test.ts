import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import { json, ModelServer } from '../../../test/fakes/model-server.ts';
import { realEnv } from '../../kit/env/real.ts';
import { OrchdError } from '../../model/errors.ts';
import { UpstreamWatch } from './watch.ts';

/** Long: in these tests nothing is looked at because time has passed. */
const POLL_MS = 3_600_000;

async function watched(t: { after(run: () => unknown): void }, models: ModelServer['models'] = ['m']) {
  const server = await new ModelServer(models).start();
  const changes = new EventEmitter();
  const watch = new UpstreamWatch({ env: realEnv(), onChange: () => changes.emit('change'), maxStreams: 10 });
  t.after(() => watch.stop());
  t.after(() => server.kill());
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await once(changes, 'change');
  };
  return { server, watch, until, order: { url: server.url, poll_ms: POLL_MS } };
}

const looks = ({ asked }: ModelServer): number =>
  asked.filter(({ what }) => what === 'GET /v1/models').length;

test('a thousand failed calls are a reason for one look, not for a thousand', async (t) => {
  const { server, watch, until, order } = await watched(t);
  watch.follow(order);
  for (let i = 0; i < 1000; i++) watch.suspect();
  await until(() => watch.state.status === 'up');
  for (let i = 0; i < 1000; i++) watch.suspect();
  // A look for another reason, so that those which the calls have brought about would be over too.
  watch.follow({ ...order, key: 'other' });
  await until(() => watch.state.status === 'up');
  assert.equal(looks(server), 2);
});

test('a call that does not reach the upstream takes it out at once, until a look has found it again', async (t) => {
  const { watch, until, order } = await watched(t);
  watch.follow(order);
  await until(() => watch.state.status === 'up');
  watch.unreachable(new OrchdError('WORKER_UNAVAILABLE', 'POST http://h: no connection (ECONNREFUSED)'));
  const { status, problem, models } = watch.state;
  assert.deepEqual([status, problem?.code, models], ['away', 'UPSTREAM_UNAVAILABLE', [{ id: 'm' }]]);
  assert.match(problem?.message ?? '', /does not answer \(ECONNREFUSED\)$/);
  await until(() => watch.state.status === 'up');
  assert.equal(watch.state.problem, undefined);
});

test('another key or address takes effect at once; the models of another address are not taken over', async (t) => {
  const { server, watch, until, order } = await watched(t);
  const other = await watched(t, ['other']);
  watch.follow({ ...order, key: 'first' });
  await until(() => watch.state.status === 'up');
  watch.follow({ ...order, key: 'second' });
  assert.deepEqual([watch.state.status, watch.state.models.length], ['new', 1]);
  await until(() => watch.state.status === 'up');
  assert.deepEqual(new Set(server.asked.map(({ key }) => key)), new Set(['Bearer first', 'Bearer second']));
  assert.equal(watch.serverOf('m').headers['authorization'], 'Bearer second');
  watch.follow(other.order);
  assert.deepEqual(watch.state.models, []);
  await until(() => watch.state.status === 'up');
  assert.deepEqual(watch.state.models, [{ id: 'other' }]);
});

test('a server of a known kind is asked in its own way only, and one that is not known is asked no more', async (t) => {
  const { server, watch, until, order } = await watched(t, [{ id: 'm', owned_by: 'vllm', max_model_len: 7 }]);
  watch.follow(order);
  await until(() => watch.state.status === 'up');
  assert.deepEqual(
    server.asked.map(({ what }) => what),
    ['GET /v1/models'],
  );
  const llama = await watched(t, [{ id: 'm', owned_by: 'llamacpp' }]);
  llama.server.paths.set('/props', json({ default_generation_settings: { n_ctx: 9 }, total_slots: 2 }));
  llama.watch.follow(llama.order);
  await llama.until(() => llama.watch.state.status === 'up');
  assert.deepEqual(
    [llama.watch.state.models, llama.watch.state.slots],
    [[{ id: 'm', context_length: 9 }], 2],
  );
  assert.deepEqual(
    llama.server.asked.map(({ what }) => what),
    ['GET /v1/models', 'GET /props'],
  );
});

test('a problem names the path that was asked, and fits whether a key was given', async (t) => {
  const { server, watch, until, order } = await watched(t);
  const problem = async (more: object): Promise<string> => {
    watch.follow({ ...order, ...more });
    await until(() => watch.state.status === 'away');
    return watch.state.problem?.message ?? '';
  };
  const url = `${server.url}/api`;
  assert.ok((await problem({ url })).startsWith(`${url} answers 404 to GET /api/v1/models. `));
  server.paths.set('/v1/models', (_, response) => void response.writeHead(401).end());
  assert.match(await problem({}), /wants a key \(401\): name the variable .*key_env/);
  const refused = await problem({ key: 'wrong' });
  assert.match(refused, /does not accept the key \(401\): put a valid one into the variable/);
  assert.doesNotMatch(refused, /name the variable/i);
});
