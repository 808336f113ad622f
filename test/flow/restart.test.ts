/** The brain is killed while a command prints: whoever follows goes on where it broke, and the command ran once. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type Running, start } from './cli-process.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-restart-'));
const running = new Set<Running>();

after(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all([...running].map(({ ended }) => ended));
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

/** Prints random lines slowly, keeps its own copy, and writes one line into a ledger when it starts. */
const PRINTER = `
import { appendFileSync } from 'node:fs';
const { ledger, copy, lines } = JSON.parse(await new Response(process.stdin).text());
appendFileSync(ledger, 'run\\n');
for (let at = 0; at < lines; at++) {
  const line = at + ' ' + Math.random().toString(36).repeat(1 + (at % 3)) + ' \\u00fc\\u{1F9E0}\\n';
  appendFileSync(copy, line);
  process.stdout.write(line);
  await new Promise((done) => setTimeout(done, 25));
}
`;

interface Place {
  readonly data: string;
  readonly config: string;
  readonly ledger: string;
  readonly copy: string;
  readonly port: number;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function place(name: string): Promise<Place> {
  const folder = mkdtempSync(join(root, `${name}-`));
  const script = join(folder, 'printer.mjs');
  writeFileSync(script, PRINTER);
  const config = join(folder, 'config.yaml');
  const argv = JSON.stringify([process.execPath, script]);
  writeFileSync(
    config,
    `backends:\n  demo: false\n  commands:\n    - name: printer\n      types: { print: { argv: ${argv} } }\n`,
  );
  writeFileSync(join(folder, 'ledger'), '');
  return {
    data: join(folder, 'data'),
    config,
    ledger: join(folder, 'ledger'),
    copy: join(folder, 'copy'),
    port: await freePort(),
  };
}

async function up({ data, config, port }: Place): Promise<Running> {
  const server = start(['up', '--port', String(port), '--data', data, '--config', config]);
  running.add(server);
  await server.saw('err', /press Ctrl-C to stop/);
  return server;
}

async function kill(server: Running): Promise<void> {
  server.child.kill('SIGKILL');
  await server.ended;
  running.delete(server);
}

const submit = (client: OrchdClient, { ledger, copy }: Place, lines: number) =>
  client.submit({ type: 'print', job_id: 'printed', payload: { ledger, copy, lines } });

function check({ ledger, copy }: Place, text: string): void {
  assert.equal(text, readFileSync(copy, 'utf8'), 'the bytes are the command’s own');
  assert.equal(readFileSync(ledger, 'utf8'), 'run\n', 'it ran once');
}

test('killed while the command prints: the stream goes on from its last id to the end', async () => {
  const where = await place('middle');
  let server = await up(where);
  const client = new OrchdClient({ url: `http://127.0.0.1:${where.port}` });
  await submit(client, where, 60);
  let text = '';
  let kills = 0;
  const ids: string[] = [];
  for await (const { id, event, data } of client.events('printed')) {
    assert.notEqual(event, 'reset');
    if (id !== undefined) ids.push(id);
    if (event !== 'token') continue;
    text += (data as { t: string }).t;
    if (kills < 2 && ids.length >= 10 * (kills + 1)) {
      kills++;
      await kill(server);
      server = await up(where);
    }
  }
  assert.equal(kills, 2);
  assert.deepEqual(ids, [...Array.from({ length: 61 }, (_, at) => `1.${at + 1}`), '1.end']);
  check(where, text);
  await kill(server);
});

test('killed right after the submit was acknowledged: the job still runs, once', async () => {
  const where = await place('before');
  let server = await up(where);
  const client = new OrchdClient({ url: `http://127.0.0.1:${where.port}` });
  await submit(client, where, 5);
  await kill(server);
  server = await up(where);
  let text = '';
  for await (const { event, data } of client.events('printed'))
    if (event === 'token') text += (data as { t: string }).t;
  check(where, text);
  await kill(server);
});

test('command and brain both killed: the job is tried again and ends', async () => {
  const where = await place('both');
  let server = await up(where);
  const client = new OrchdClient({ url: `http://127.0.0.1:${where.port}` });
  await submit(client, where, 1000);
  for await (const { event } of client.events('printed')) if (event === 'token') break;
  await kill(server);
  killSupervisors(where.data);
  writeFileSync(where.copy, '');
  server = await up(where);
  for await (const { event } of client.events('printed')) if (event === 'reset' || event === 'token') break;
  const job = await client.get('printed');
  assert.deepEqual(
    job.attempts.map(({ state }) => state === 'ended' || state === 'accepted'),
    [true, true],
  );
  assert.equal(readFileSync(where.ledger, 'utf8'), 'run\nrun\n');
  await client.cancel('printed');
  await kill(server);
});

const EXECUTION = join('executions', 'printer', 'executions', 't-printed%3a1');

/** The supervisor of the first attempt, and its command. */
function killSupervisors(data: string): void {
  for (const pid of pidsNaming(data)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
}

function pidsNaming(data: string): number[] {
  const owner = JSON.parse(readFileSync(join(data, EXECUTION, 'owner.json'), 'utf8'));
  const child = JSON.parse(readFileSync(join(data, EXECUTION, 'child.json'), 'utf8'));
  return [owner.pid, child.pid];
}
