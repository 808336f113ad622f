/** The gateways of `backends.gateways`: several beside each other, and what becomes of work on one that is removed. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { RemoteGateways } from '../../src/adapters/gateway/remote-gateways.ts';
import { type RemoteGateway, remoteGateways } from '../../src/adapters/gateway/remote-settings.ts';
import { loadConfig } from '../../src/config/load.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { createLogger } from '../../src/kit/logger.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import type { FakeGateway } from '../fakes/gateway.ts';
import { LASTING, onStores, start, within } from './flow-kit.ts';
import { fakeGateway, folderFor } from './gateway-kit.ts';

const seat = (models: string[]) => ({ models, slots: 1 });
const FAST = 'orchestrator: { recovery: { holder_lost_ms: 500, sweep_interval_ms: 50 } }';

const settingsOf = (gateways: Readonly<Record<string, FakeGateway>>): readonly RemoteGateway[] => {
  const list = Object.entries(gateways).map(([name, { url }]) => ({ name, url }));
  const config = loadConfig({ text: JSON.stringify({ backends: { gateways: list } }) });
  return remoteGateways(config, { variables: {} });
};

interface Site {
  readonly brain: Orchestrator;
  readonly source: RemoteGateways;
}

async function brainWith(
  t: TestContext,
  data: string,
  folder: string,
  gateways: Readonly<Record<string, FakeGateway>>,
): Promise<Site> {
  const source: RemoteGateways = new RemoteGateways({
    env: realEnv(),
    logger: createLogger({ write: () => undefined, now: () => 0 }),
    folder,
    gateways: settingsOf(gateways),
    variables: {},
    isCopy: false,
    maxStreams: 64,
    isInCatalog: async () => false,
    fleet: { backends: () => brain.reads.backends() },
  });
  const brain = await start(t, { data, backends: [], sources: [source], config: FAST });
  await source.firstReports();
  return { brain, source };
}

const inference = (job_id: string, model: string) => ({ job_id, type: 'inference', model, payload: job_id });
const seatsOf = ({ reads }: Orchestrator) => reads.backends().filter(({ kind }) => kind === 'gateway');
const namesOf = (brain: Orchestrator): string[] => seatsOf(brain).map(({ name }) => name);

const until = (holds: () => boolean): Promise<void> =>
  within(
    (async () => {
      while (!holds()) await new Promise((resolve) => setImmediate(resolve));
    })(),
  );

onStores(
  'seats of one name at two gateways are two backends, each with its own work',
  ['memory'],
  async (t, data) => {
    const one = await fakeGateway(t, { a: seat(['m']) });
    const two = await fakeGateway(t, { a: seat(['n']) });
    one.answersAtOnce = true;
    two.answersAtOnce = true;
    const { brain } = await brainWith(t, data, folderFor(t), { one, two });
    assert.deepEqual(namesOf(brain).sort(), ['one:a', 'two:a']);
    for (const [id, model] of [
      ['first', 'm'],
      ['second', 'n'],
    ] as const) {
      await brain.submit(inference(id, model));
      assert.equal((await brain.wait(id)).state, 'succeeded');
    }
    assert.deepEqual([one.begun('first'), one.begun('second')], [1, 0]);
    assert.deepEqual([two.begun('first'), two.begun('second')], [0, 1]);
  },
);

onStores(
  'a gateway that is removed gets no new job, its running one ends there, and then it is gone',
  LASTING,
  async (t, data) => {
    const folder = folderFor(t);
    const old = await fakeGateway(t, { a: seat(['m']) });
    const { brain, source } = await brainWith(t, data, folder, { old });
    await brain.submit(inference('running', 'm'));
    await until(() => old.begun('running') === 1);
    await source.apply([]);
    await until(() => seatsOf(brain).every(({ models }) => models?.length === 0));
    await brain.submit({ ...inference('later', 'm'), wait_for_backend: true } as never);
    await old.works.of('running').succeed();
    const job = await brain.wait('running');
    assert.deepEqual([job.state, job.attempts.length], ['succeeded', 1]);
    await until(() => namesOf(brain).length === 0);
    await until(() => !existsSync(join(folder, 'old', 'gateway.json')));
    assert.deepEqual([old.begun('running'), old.begun('later')], [1, 0]);
  },
);

onStores(
  'a brain that starts without a gateway on which jobs run collects them there, each once',
  LASTING,
  async (t, data) => {
    const folder = folderFor(t);
    const old = await fakeGateway(t, { a: seat(['m']) });
    const first = await brainWith(t, data, folder, { old });
    await first.brain.submit(inference('running', 'm'));
    await until(() => old.begun('running') === 1);
    await first.brain.stop();
    const { brain } = await brainWith(t, data, folder, {});
    await until(() => namesOf(brain).includes('old:a'));
    await old.works.of('running').succeed();
    const job = await brain.wait('running');
    assert.deepEqual([job.state, job.attempts.length, old.begun('running')], ['succeeded', 1, 1]);
    await until(() => namesOf(brain).length === 0);
  },
);

onStores(
  'a gateway that is removed and added again keeps its running job and takes others',
  ['memory'],
  async (t, data) => {
    const gateway = await fakeGateway(t, { a: { models: ['m'], slots: 2 } });
    const other = await fakeGateway(t, { a: seat(['m']) });
    const { brain, source } = await brainWith(t, data, folderFor(t), { gateway });
    await brain.submit(inference('running', 'm'));
    await until(() => gateway.begun('running') === 1);
    await source.apply([]);
    assert.throws(() => source.check(settingsOf({ gateway: other })), {
      code: 'CONFIG_INVALID',
      details: { field: 'backends.gateways[0].url' },
    });
    await source.apply(settingsOf({ gateway }));
    await brain.submit(inference('second', 'm'));
    await until(() => gateway.begun('second') === 1);
    for (const id of ['running', 'second']) await gateway.works.of(id).succeed();
    for (const id of ['running', 'second']) assert.equal((await brain.wait(id)).state, 'succeeded');
    assert.equal(gateway.begun('running'), 1);
  },
);
