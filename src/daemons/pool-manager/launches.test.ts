import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { parseModelRef } from '../../model/model-ref.ts';
import type { DeviceState, StartWorker } from '../../model/pool-wire.ts';
import { type Launch, Launches, type LaunchesOptions } from './launches.ts';
import type { ModelFiles } from './model-files.ts';

const MIB = 2 ** 20;
const SERVER = ['server', '-m', '{model}', '--port', '{port}', '-np', '{slots}', '-c', '{total_context}'];
const REF = 'file:/models/x.gguf';

/** A file of 1000 MiB whose KV cache takes a MiB for every 100 tokens. */
const FILES = {
  locate: async () => ({
    ref: REF,
    file: '/models/x.gguf',
    sizeBytes: 1000 * MIB,
    facts: { contextLength: 100_000, kvBytesPerToken: MIB / 100 },
  }),
  locateAdapter: async () => ({ file: '/loras/x.gguf', sizeBytes: 100 * MIB }),
} as unknown as ModelFiles;

const launches = (options: Partial<LaunchesOptions> = {}): Launches =>
  new Launches({
    env: realEnv(),
    models: FILES,
    rules: [],
    command: [
      'worker',
      '--engine',
      '{engine}',
      '--slots',
      '{slots}',
      '--context',
      '{context}',
      '--gpu',
      '{gpu}',
    ],
    args: [],
    environment: {},
    workerHost: '127.0.0.1',
    slots: 4,
    contextLength: 4000,
    allowCpuFallback: false,
    graceMs: 10_000,
    ownUrl: () => 'http://127.0.0.1:9200',
    ...options,
  });

function prepared(
  options: Partial<LaunchesOptions>,
  order: Partial<StartWorker> = {},
  kind: DeviceState['kind'] = 'nvidia',
): Promise<Launch> {
  const given = { model_ref: REF, gpu_id: 0, ...order };
  return launches(options).prepare('w', given, parseModelRef(REF), kind);
}

const OPENAI = { match: 'file:*', engine: 'openai', args: ['--upstream-command', JSON.stringify(SERVER)] };

test('the estimate has the KV cache of the whole context for every slot, for servers of others too', async () => {
  const [file, scratch] = [1100 * MIB, 256 * MIB];
  for (const rules of [[], [OPENAI]]) {
    const kvOf = async (options: Partial<LaunchesOptions>, order: Partial<StartWorker> = {}) => {
      const { vramBytes } = await prepared({ rules, ...options }, order);
      return Math.round((vramBytes - file - scratch) / MIB);
    };
    assert.equal(await kvOf({}), 4 * 40);
    assert.equal(await kvOf({}, { slots: 16, context_length: 8000 }), 16 * 80);
    assert.equal(await kvOf({ args: ['--slots', '16', '--context=2000'] }), 16 * 20);
  }
});

test('options of the pool and of the engine count as they do for the worker: the last one', async () => {
  const rules = [{ ...OPENAI, args: [...OPENAI.args, '--slots', '8'] }];
  const { argv, vramBytes } = await prepared({ rules, args: ['--slots', '2'] }, { slots: 16 });
  assert.equal(argv.lastIndexOf('--slots'), argv.length - 2);
  assert.equal(vramBytes, (await prepared({ slots: 8 })).vramBytes);
  const resolved = await launches({ rules, args: ['--slots', '2'] }).resolve(parseModelRef(REF));
  assert.equal(resolved.slots, 8);
});

test('a worker on a GPU needs it, unless the pool allows the CPU; one on the CPU uses no GPU', async () => {
  const gpuOf = ({ argv }: Launch) => argv[argv.indexOf('--gpu') + 1];
  assert.equal(gpuOf(await prepared({})), 'required');
  assert.equal(gpuOf(await prepared({ allowCpuFallback: true })), 'auto');
  assert.equal(gpuOf(await prepared({}, {}, 'cpu')), 'off');
});

test('the file of an adapter is told to the worker, counts in the estimate, and stays in what is resolved', async () => {
  const text = `${REF}::adapter=/loras/x.gguf::variant=fp16`;
  const order = { model_ref: text, gpu_id: 0 };
  const command = ['worker', '--lora', '{adapter}', '--variant', '{variant}'];
  // The rule names the model without its adapter.
  const rules = [{ match: REF, engine: 'own' }];
  const { argv, vramBytes } = await launches({ command, rules }).prepare(
    'w',
    order,
    parseModelRef(text),
    'cpu',
  );
  assert.deepEqual(argv, ['worker', '--lora', '/loras/x.gguf', '--variant', 'fp16']);
  assert.equal(Math.round((vramBytes - (await prepared({ rules })).vramBytes) / MIB), 110);
  const resolved = await launches().resolve(parseModelRef(text));
  assert.deepEqual([resolved.model_ref, resolved.size_bytes], [text, 1100 * MIB]);
});

test('a worker that would not apply its adapter is not started', async () => {
  const text = `${REF}::adapter=/loras/x.gguf`;
  const start = (options: Partial<LaunchesOptions>) =>
    launches(options).prepare('w', { model_ref: text, gpu_id: 0 }, parseModelRef(text), 'cpu');
  await assert.rejects(start({}), { code: 'UNSUPPORTED' }, 'the command has no {adapter}');
  const command = ['worker', '{adapter}'];
  await assert.rejects(start({ command, rules: [OPENAI] }), { code: 'UNSUPPORTED' });
  await start({ command });
});
