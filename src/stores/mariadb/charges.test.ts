/** Tables of the version before charges get those of the attempts that were closed by then. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type TestServer, testMariaDb } from '../../../test/fakes/mariadb.ts';
import { realEnv } from '../../kit/env/real.ts';
import type { Charge } from '../../model/charge.ts';
import { tokenOf } from '../../model/records.ts';
import { Opened } from '../conformance/opened.ts';
import { MariaDbStore } from './mariadb.ts';
import { connector, type Sql } from './sql.ts';
import { migrate } from './tables.ts';

let server: TestServer;
before(async () => {
  server = await testMariaDb();
});
after(() => server.stop());

const PRICES = [{ model: 'm', output: 1_000_000, request: 7 }];
const USAGE = { input: 10, cacheRead: 5, cacheWrite: 0, output: 3, reasoning: 2 };
const FAILED = { code: 'EXECUTION_FAILED', message: 'no', retriable: true } as const;
/** More than are filled at once, twice. */
const JOBS = 450;
const ALL = { from: 0, to: Number.MAX_SAFE_INTEGER };

async function openOn(url: string): Promise<Opened> {
  const opened = new Opened(new MariaDbStore(realEnv(), { connect: connector(url) }), { prices: PRICES });
  await opened.open();
  return opened;
}

/** Jobs that ended with counts and with a bill, that ended with neither, and one that is tried again. */
async function spend(url: string): Promise<Charge[]> {
  const opened = await openOn(url);
  opened.backend();
  const endTry = (id: string, ok: boolean): void => {
    const { uid, open } = opened.job(id);
    const outcome = ok
      ? { ok, result: '1', usage: { ...USAGE, decodeMs: 0 } }
      : { ok, error: FAILED, usage: USAGE };
    opened.step({ type: 'outcome', token: tokenOf(uid, open?.n ?? 0), outcome } as never, opened.now + 1);
  };
  opened.submit('open', { model: 'm', max_tries: 9 });
  endTry('open', false);
  for (let n = 0; n < JOBS; n++) {
    opened.submit(`j${n}`, { model: n % 3 === 0 ? 'unpriced' : 'm', tags: { n: `${n % 7}` } });
    endTry(`j${n}`, true);
  }
  for (let n = 0; n < 10; n++) opened.finish(`free${n}`);
  await opened.settled();
  const charges = await opened.store.ledger.page(ALL, undefined, 1000);
  await opened.close();
  return charges;
}

/** Runs with a connection whose tables are of the version before charges. */
async function beforeCharges(url: string, run: (sql: Sql) => Promise<void>): Promise<void> {
  const sql = await connector(url)();
  try {
    await sql.run('DROP TABLE orchestrator_charges');
    await sql.run('UPDATE orchestrator_schema SET version = 5');
    await run(sql);
  } finally {
    await sql.close();
  }
}

async function chargesIn(url: string): Promise<Charge[]> {
  const opened = await openOn(url);
  const charges = await opened.store.ledger.page(ALL, undefined, 1000);
  await opened.close();
  return charges;
}

test('tables of the version before charges get those of every attempt that used something or has a bill', async () => {
  const url = await server.database();
  const charges = await spend(url);
  assert.equal(charges.length, JOBS + 1);
  await beforeCharges(url, async (sql) => void (await migrate(sql)));
  assert.deepEqual(await chargesIn(url), charges);
});

test('a change of the tables that is cut short while it adds charges is finished by the next start, each charge once', async () => {
  const url = await server.database();
  const charges = await spend(url);
  await beforeCharges(url, async (sql) => {
    const batch = sql.batch.bind(sql);
    let batches = 0;
    sql.batch = (text, rows) => {
      if (++batches === 2) return Promise.reject(new Error('the line broke'));
      return batch(text, rows);
    };
    await assert.rejects(migrate(sql), /the line broke/);
  });
  assert.deepEqual(await chargesIn(url), charges);
});
