/** The gateway that a brain runs itself: a process of its own, found again by the next brain. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { until } from './cli-process.ts';
import { start, tempFolder } from './flow-kit.ts';
import { folderFor, Heard, type SourceOptions, sourceOf } from './gateway-kit.ts';

const KEY = 'sk-never-on-disk';
const CONFIG = {
  gateway: {
    bind_addr: '127.0.0.1:0',
    seats: [{ name: 'a', driver: 'openai', key_env: 'KEY', models: { m: 'gpt-5' } }],
  },
};

interface Address {
  readonly uri: string;
  readonly process: { readonly pid: number };
}

const addressIn = (folder: string): Address =>
  JSON.parse(readFileSync(join(folder, 'address.json'), 'utf8')) as Address;

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** A folder for gateways; those that still run at the end of the test are killed. */
function gatewayFolder(t: TestContext): string {
  const root = folderFor({ after: () => undefined });
  t.after(() => {
    for (const name of readdirSync(root)) {
      const file = join(root, name, 'address.json');
      if (existsSync(file) && isAlive(addressIn(join(root, name)).process.pid))
        process.kill(addressIn(join(root, name)).process.pid, 'SIGKILL');
    }
    rmSync(root, { recursive: true, force: true, maxRetries: 10 });
  });
  return join(root, 'gateway');
}

/** A source that has heard of its seat. */
async function begin(t: TestContext, folder: string, options: Partial<SourceOptions> = {}) {
  const made = sourceOf(t, { config: CONFIG, variables: { KEY }, folder, ...options });
  t.after(() => made.source.stop());
  const heard = new Heard();
  made.source.start(heard);
  await heard.until(({ backends }) => {
    const info = backends.get('a');
    return info !== undefined && info.outage === undefined;
  });
  return { ...made, heard };
}

async function release(folder: string): Promise<void> {
  const { secret } = JSON.parse(readFileSync(join(folder, 'executor.json'), 'utf8')) as { secret: string };
  await fetch(`${addressIn(folder).uri}/release`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}` },
  });
}

test('the keys reach the gateway, and are in no file, argument or variable', async (t) => {
  const folder = gatewayFolder(t);
  const { lines } = await begin(t, folder);
  const { pid } = addressIn(folder).process;
  const seen = [
    ...readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8')),
    readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
    readFileSync(`/proc/${pid}/environ`, 'utf8'),
    JSON.stringify(lines),
  ];
  assert.ok(!seen.join('\n').includes(KEY));
});

test('[FANO-9] a stop leaves a gateway with a request alone; the next brain finds it and collects the answer', async (t) => {
  const folder = gatewayFolder(t);
  const data = tempFolder(t);
  const first = sourceOf(t, { config: CONFIG, variables: { KEY }, folder });
  const brain = await start(t, { data, backends: [], sources: [first.source] });
  await first.source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'hold' });
  for (;;) {
    if ((await brain.get(id))?.state === 'running') break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { pid } = addressIn(folder).process;
  await brain.stop();
  assert.ok(isAlive(pid));
  assert.ok(first.lines.some(({ message }) => /the next start collects their answers/.test(message)));
  const second = sourceOf(t, { config: CONFIG, variables: { KEY }, folder });
  const next = await start(t, { data, backends: [], sources: [second.source] });
  await second.source.firstReports();
  assert.equal(addressIn(folder).process.pid, pid);
  await release(folder);
  const job = await next.wait(id);
  assert.deepEqual([(job.result as { text: string }).text, job.attempts.length], ['released', 1]);
});

test('a gateway without work ends with its brain', async (t) => {
  const folder = gatewayFolder(t);
  const { source } = await begin(t, folder);
  const { pid } = addressIn(folder).process;
  await source.stop();
  await until(() => !isAlive(pid));
});

test('a gateway that is killed is started again, and gets the order again', async (t) => {
  const folder = gatewayFolder(t);
  const { heard } = await begin(t, folder);
  const before = heard.backends.get('a')?.registry;
  process.kill(addressIn(folder).process.pid, 'SIGKILL');
  await heard.until(({ backends }) => {
    const { registry, outage, models } = backends.get('a') ?? {};
    return registry !== before && outage === undefined && models?.length === 1;
  });
});

test('a brain on a copied folder starts a gateway of its own, and leaves that of the original alone', async (t) => {
  const folder = gatewayFolder(t);
  const original = await begin(t, folder);
  const { pid } = addressIn(folder).process;
  const copy = `${folder}-copy`;
  cpSync(folder, copy, { recursive: true });
  // Nobody has said that it is a copy.
  const refused = sourceOf(t, { config: CONFIG, variables: { KEY }, folder: copy });
  refused.source.start(new Heard());
  await refused.source.firstReports();
  await refused.source.stop();
  assert.match(refused.lines[0]?.reason ?? '', /is a copy of another folder/);
  const second = await begin(t, copy, { isCopy: true });
  assert.notEqual(addressIn(copy).process.pid, pid);
  assert.notEqual(second.heard.backends.get('a')?.registry, original.heard.backends.get('a')?.registry);
  await second.source.stop();
  assert.ok(isAlive(pid));
});

test('without seats in the configuration a gateway of an earlier start is followed until nothing runs', async (t) => {
  const folder = gatewayFolder(t);
  const data = tempFolder(t);
  const first = sourceOf(t, { config: CONFIG, variables: { KEY }, folder });
  const brain = await start(t, { data, backends: [], sources: [first.source] });
  await first.source.firstReports();
  const { job_id: id } = await brain.submit({ type: 'inference', model: 'm', payload: 'hold' });
  for (;;) {
    if ((await brain.get(id))?.state === 'running') break;
    await new Promise((resolve) => setImmediate(resolve));
  }
  await brain.stop();
  const { pid } = addressIn(folder).process;
  const former = sourceOf(t, { config: {}, folder });
  const next = await start(t, { data, backends: [], sources: [former.source] });
  await release(folder);
  assert.equal((await next.wait(id)).state, 'succeeded');
  await until(() => !isAlive(pid));
});

test('a program at the port is named in the reason', async (t) => {
  const folder = gatewayFolder(t);
  await begin(t, folder);
  const port = new URL(addressIn(folder).uri).port;
  const config = { gateway: { ...CONFIG.gateway, bind_addr: `127.0.0.1:${port}` } };
  const second = sourceOf(t, { config, variables: { KEY }, folder: `${folder}-second` });
  t.after(() => second.source.stop());
  const heard = new Heard();
  second.source.start(heard);
  await heard.until(({ backends }) => backends.has('a'));
  assert.match(heard.backends.get('a')?.outage ?? '', /may use port \d+ \(gateway\.bind_addr\)/);
});
