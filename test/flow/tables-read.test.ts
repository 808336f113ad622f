/** What others read with SQL while orchd works: the tables, the views and the role of docs/tables.md. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { createOrchestrator, type Orchestrator } from '../../src/index.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';

const PAGE = readFileSync(join(import.meta.dirname, '../../docs/tables.md'), 'utf8');
const CONSUMER = 'c'.repeat(32);
const LEASE = 'd'.repeat(64);
/** More than the server joins for one value by default. */
const HUGE = 'h'.repeat(3 * 2 ** 20);
const LARGE = 'ä'.repeat(20_000);
const SAID = 'said-in-a-session';

let server: OwnServer;
let brain: Orchestrator;
let admin: Sql;
let reader: Sql;
let database: string;

/** The statements of the blocks of the page with this name. */
function statementsOf(name: string): string[] {
  const blocks = [...PAGE.matchAll(new RegExp(`^\`\`\`sql ${name}\\n(.*?)^\`\`\``, 'gms'))];
  return blocks.flatMap(([, text]) =>
    (text ?? '')
      .replaceAll(/^--.*\n/gm, '')
      .split(/;\n+/)
      .filter((statement) => statement.trim() !== ''),
  );
}

before(async () => {
  server = await ownMariaDb();
  const url = await server.database();
  database = new URL(url).pathname.slice(1);
  const types = {
    fine: () => 'done',
    broken: () => Promise.reject(new Error('out of paper')),
  };
  const config = JSON.stringify({ store: 'mariadb', mariadb: { url } });
  brain = await createOrchestrator({ config, backends: [{ name: 'local', slots: 2, types }] });
  admin = await connector(url)();
  for (const statement of statementsOf('grants'))
    await admin.run(statement.replaceAll(' orchd.', ` ${database}.`));
  const account = new URL(url);
  account.username = 'reporter';
  account.password = 'choose-another-one';
  reader = await connector(account.href)();
  await fill();
});
after(async () => {
  await reader?.close();
  await admin?.close();
  await brain?.stop();
  await server?.stop();
});

async function fill(): Promise<void> {
  await brain.submit({ job_id: 'report-7', type: 'fine', payload: { title: 'Seven', text: LARGE } });
  await brain.submit({ job_id: 'huge', type: 'fine', payload: { title: 'Huge', text: HUGE } });
  await brain.submit({ job_id: 'small', type: 'fine', payload: { title: 'Small' } });
  await brain.submit({ job_id: 'bad', type: 'broken', payload: null, max_tries: 1 });
  await brain.submit({ job_id: 'talk', type: 'fine', payload: { text: SAID }, session_id: 's' });
  await brain.submit({ job_id: 'long-talk', type: 'fine', payload: { text: SAID + LARGE }, session_id: 's' });
  for (const id of ['report-7', 'huge', 'small', 'bad', 'talk', 'long-talk']) await brain.wait(id);
  await brain.leases.grant({ token: LEASE, agent: 'embedder', minMemoryMb: 0, ttlMs: 3_600_000 }, 'default');
  await brain.consumers.register({
    pool: 'gpu',
    name: 'one',
    slots: 2,
    types: ['pulled'],
    consumer_id: CONSUMER,
  });
  for (const id of ['pulled-1', 'pulled-2', 'later-1', 'later-2', 'later-3'])
    await brain.submit({ job_id: id, type: 'pulled', payload: { id }, max_tries: 1 });
  const { jobs } = JSON.parse(
    await brain.consumers.claim(CONSUMER, { claim: 1, max: 2 }, () => undefined),
  ) as {
    jobs: { token: string }[];
  };
  const [first, second] = jobs.map(({ token }) => token);
  await brain.consumers.results(CONSUMER, {
    results: [
      { token: first!, ok: true, result: 1 },
      { token: second!, ok: false, error: { code: 'NO_PAPER', message: 'the tray is empty' } },
    ],
  });
}

const read = async (sql: string): Promise<unknown[][]> =>
  (await reader.query<Record<string, unknown>>(sql)).map((row) => Object.values(row));

test('every example of the page finds something, for an account that only reads', async () => {
  const examples = statementsOf('examples');
  assert.ok(examples.length >= 7);
  for (const example of examples) {
    const rows = await read(example);
    // Nothing here has a price.
    if (!example.includes('orchestrator_charges')) assert.ok(rows.length > 0, example);
  }
});

test('a job at a pool of consumers has the name of the pool, its attempts, its error and when it changed', async () => {
  const rows = await read(
    `SELECT job_id, status, owner_pool, attempts, last_error, updated_at >= created_at FROM orchestrator_jobs
      WHERE job_id LIKE 'pulled-%' OR job_id IN ('bad', 'small') ORDER BY job_id`,
  );
  assert.deepEqual(rows, [
    ['bad', 'dead_letter', 'local', 1, 'EXECUTION_FAILED: out of paper', 1],
    ['pulled-1', 'done', 'gpu', 1, null, 1],
    ['pulled-2', 'dead_letter', 'gpu', 1, 'EXECUTION_FAILED: the tray is empty', 1],
    ['small', 'done', 'local', 1, null, 1],
  ]);
});

test('a payload is read by SQL wherever it lies: in its row, in one body, or in several pieces', async () => {
  const payload = (id: string) =>
    read(`SELECT form, payload_bytes, payload FROM orchestrator_job_payloads WHERE uid = '${id}'`);
  const small = JSON.stringify({ title: 'Small' });
  assert.deepEqual(await payload('small'), [['json', small.length, small]]);
  const large = JSON.stringify({ title: 'Seven', text: LARGE });
  assert.deepEqual(await payload('report-7'), [['json', Buffer.byteLength(large), large]]);
  const huge = JSON.stringify({ title: 'Huge', text: HUGE });
  assert.deepEqual(await payload('huge'), [['json', huge.length, null]], 'none rather than a part of it');
  await reader.run('SET SESSION group_concat_max_len = 16777216');
  assert.deepEqual(await payload('huge'), [['json', huge.length, huge]]);
});

test('what was said in a session stays sealed for those who read the tables', async () => {
  const rows = await read(
    "SELECT uid, form, payload FROM orchestrator_job_payloads WHERE uid LIKE '%talk' ORDER BY uid",
  );
  assert.deepEqual(
    rows.map(([uid, form]) => [uid, form]),
    [
      ['long-talk', 'sealed'],
      ['talk', 'sealed'],
    ],
  );
  for (const [, , payload] of rows) assert.match(String(payload), /^sealed:1:/);
  for (const view of ['orchestrator_jobs', 'orchestrator_audit_log'])
    assert.ok(!JSON.stringify(await read(`SELECT * FROM ${view}`)).includes(SAID), view);
});

const DENIED = { sqlState: '42000', message: /denied/ };
const READABLE = [
  'orchestrator_jobs',
  'orchestrator_charges',
  'worker_pools',
  'orchestrator_job_payloads',
  'orchestrator_lease_list',
  'orchestrator_audit_log',
];

test('an account that only reads sees no other table, and none of the secrets that are in them', async () => {
  const tables = await admin.query<{ name: string }>(
    'SELECT table_name AS name FROM information_schema.tables WHERE table_schema = DATABASE()',
  );
  const others = tables.map(({ name }) => name).filter((name) => !READABLE.includes(name));
  for (const secret of ['leases', 'audit', 'records', 'epoch', 'session_keys', 'blobs', 'attempts'])
    assert.ok(others.includes(`orchestrator_${secret}`), secret);
  for (const table of others) await assert.rejects(read(`SELECT * FROM ${table}`), DENIED, table);
  const [epoch] = await admin.query<{ brain: string }>('SELECT brain FROM orchestrator_epoch');
  const { nonce } = JSON.parse(epoch!.brain) as { nonce: string };
  const secrets = [LEASE, CONSUMER, nonce];
  const audit = JSON.stringify(await admin.query('SELECT * FROM orchestrator_audit'));
  for (const secret of secrets) assert.ok(audit.includes(secret), 'it is in the audit itself');
  for (const name of READABLE) {
    const rows = JSON.stringify(await read(`SELECT * FROM ${name}`));
    for (const secret of secrets) assert.ok(!rows.includes(secret), name);
  }
});

test('an account that only reads can write nothing', async () => {
  for (const table of READABLE) {
    const [column] = await admin.query<{ name: string }>(
      'SELECT column_name AS name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?',
      [table],
    );
    const writes = [
      `INSERT INTO ${table} (${column!.name}) VALUES (1)`,
      `UPDATE ${table} SET ${column!.name} = ${column!.name}`,
      `DELETE FROM ${table}`,
      `DROP VIEW ${table}`,
      `DROP TABLE ${table}`,
      `TRUNCATE ${table}`,
      `ALTER TABLE ${table} ADD COLUMN extra INT`,
    ];
    for (const write of writes) await assert.rejects(reader.run(write), DENIED, write);
  }
  for (const make of ['CREATE TABLE own (id INT)', 'CREATE VIEW own AS SELECT 1 AS one'])
    await assert.rejects(reader.run(make), DENIED, make);
});
