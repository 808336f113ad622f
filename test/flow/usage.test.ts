/** What was spent is told alike by the command line, the API and the exported ledger, whatever has happened in between. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import type { LedgerLine, UsageTotal } from '../../src/model/http/usage.ts';
import { costOf, type Rates } from '../../src/model/price.ts';
import type { TokenEntry } from '../../src/wire/tokens.ts';
import { makeToken } from '../../src/wire/tokens.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { MeteredProvider, type MeteredTries } from '../fakes/metered.ts';
import { jsonLines, orchd, until } from './cli-process.ts';
import { LASTING, onStores, placed, tempFolder, within } from './flow-kit.ts';

const CONFIG = `
currency: EUR
prices: [{model: m, input: 3000000, cache_read: 300000, cache_write: 3750000, output: 15000001, request: 5}]
orchestrator: {retry: {base_delay_ms: 1, max_delay_ms: 1}, scheduler: {breaker_failures: 0}}
`;
/** As in CONFIG; cents of providers are no whole millionths, so that rounding would show. */
const RATES: Rates = [3_000_000, 300_000, 3_750_000, 15_000_001, 15_000_001, 0, 5, 0, 100];

async function brainOn(t: TestContext, data: string, provider: MeteredProvider): Promise<HttpBrain> {
  const brain = await httpBrain(placed({ data, config: CONFIG, backends: [provider] }));
  t.after(() => brain.stop());
  return brain;
}

const JOBS: readonly [id: string, agent: string, tries: MeteredTries, tags?: Record<string, string>][] = [
  ['plain', 'ann', ['succeed'], { team: 'red, "hot"' }],
  ['twice', 'ann', ['fail', 'succeed'], { team: '=1+1' }],
  ['never', 'bob', ['fail']],
  ['stopped', 'bob', ['hold'], { team: 'two\nlines'.replace('\n', ' ') }],
  ['open', 'eve', ['fail', 'hold']],
];

async function spend({ orchestrator }: HttpBrain, provider: MeteredProvider): Promise<void> {
  for (const [job_id, agent, tries, tags] of JOBS) {
    const max_tries = tries.length === 1 ? 2 : 3;
    const more = tags ? { tags } : {};
    await orchestrator.submit({ job_id, agent, model: 'm', payload: { tries }, max_tries, ...more });
  }
  await within(orchestrator.wait('plain'));
  await within(orchestrator.wait('twice'));
  await within(orchestrator.wait('never'));
  await until(async () => provider.used.has('open:2') && provider.used.has('stopped:1'));
  await orchestrator.cancel('stopped');
  await within(orchestrator.wait('stopped'));
}

/** What the provider will bill for the executions that have ended. */
function billOf(provider: MeteredProvider): number {
  const ended = [...provider.used].filter(([token]) => token !== 'open:2');
  return ended.reduce((sum, [, counts]) => sum + costOf(RATES, counts, { images: 0, ms: 0 }), 0);
}

async function ledgerOf(client: OrchdClient): Promise<LedgerLine[]> {
  const lines: LedgerLine[] = [];
  for await (const line of client.ledger()) lines.push(line);
  return lines;
}

const costIn = (lines: readonly { readonly cost: number }[]): number =>
  lines.reduce((sum, { cost }) => sum + cost, 0);

/** The cells of a CSV text, which has quoted cells. */
function readCsv(text: string): string[][] {
  const rows = text.trimEnd().split('\r\n');
  // A comma before every cell, so that each of them begins in the same way.
  return rows.map((row) =>
    [...`,${row}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) =>
      quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'),
    ),
  );
}

onStores(
  'the command, the API and the exported ledger say what the provider bills, with failed and cancelled tries, over a restart',
  LASTING,
  async (t, data) => {
    const provider = new MeteredProvider('seat', ['m']);
    let brain = await brainOn(t, data, provider);
    await spend(brain, provider);
    const bill = billOf(provider);
    for (const round of ['at once', 'after a restart']) {
      const { url } = brain;
      const client = new OrchdClient({ url });
      const report = await client.usage({ by: ['principal'] });
      assert.deepEqual(
        [report.currency, report.total.cost, costIn(report.groups)],
        ['EUR', bill, bill],
        round,
      );
      // ann: 1 + 2 tries; bob: 2 that failed and one that was cancelled; eve: one, and one is still open.
      const attempts = report.groups.map(({ group, attempts }) => [group['principal'], attempts]);
      assert.deepEqual(
        attempts,
        [
          ['ann', 3],
          ['bob', 3],
          ['eve', 1],
        ],
        round,
      );
      const lines = await ledgerOf(client);
      assert.equal(costIn(lines), bill, round);
      assert.equal(new Set(lines.map(({ attempt }) => attempt)).size, 7, round);
      for (const by of ['model', 'seat', 'token', 'session', 'day', 'tag:team', 'tenant', 'route'])
        assert.equal(costIn((await client.usage({ by: [by] })).groups), bill, `${round}: ${by}`);
      await assertSaidByCommand(url, bill, report.total);
      await brain.stop();
      brain = await brainOn(t, data, provider);
    }
  },
);

async function assertSaidByCommand(url: string, bill: number, total: UsageTotal): Promise<void> {
  const env = { ORCHD_URL: url };
  const asked = [
    ['usage', '--json'],
    ['usage', '--by', 'tag:team', '--csv'],
    ['usage', '--ledger'],
    ['usage'],
  ];
  const [json, csv, ledger, table] = await Promise.all(asked.map((words) => orchd(words, { env })));
  assert.deepEqual(jsonLines(json?.out ?? '')[0]?.['total'], total);
  assert.equal(costIn(jsonLines(ledger?.out ?? '') as unknown as LedgerLine[]), bill);
  const [head = [], ...rows] = readCsv(csv?.out ?? '');
  const cost = head.indexOf('cost');
  assert.equal(
    rows.reduce((sum, row) => sum + Number(row[cost]), 0),
    bill,
  );
  assert.deepEqual(
    rows.map(([team]) => team),
    ['', "'=1+1", 'red, "hot"', 'two lines'],
  );
  const whole = `${Math.floor(bill / 1e6)}.${String(bill % 1e6).padStart(6, '0')}`.replace(/0{1,4}$/, '');
  assert.match(table?.out ?? '', new RegExp(`^total +7 .* ${whole} EUR`, 'm'));
}

test('an index that is made again from the log has the same charges, each once', async (t) => {
  const data = tempFolder(t);
  const provider = new MeteredProvider('seat', ['m']);
  const first = await brainOn(t, data, provider);
  await spend(first, provider);
  const before = await ledgerOf(new OrchdClient({ url: first.url }));
  await first.stop();
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(data, `history.sqlite${suffix}`), { force: true });
  const again = await brainOn(t, data, provider);
  assert.deepEqual(await ledgerOf(new OrchdClient({ url: again.url })), before);
});

/** Makes the index what it was before there were charges. */
function withoutCharges(data: string): void {
  const index = new DatabaseSync(join(data, 'history.sqlite'));
  index.exec("DROP TABLE charges; UPDATE facts SET value = 2 WHERE name = 'layout'");
  index.close();
}

test('an index of a version without charges gets those of all jobs, also if the first start with it ends at once', async (t) => {
  const data = tempFolder(t);
  const provider = new MeteredProvider('seat', ['m']);
  const first = await brainOn(t, data, provider);
  await spend(first, provider);
  const before = await ledgerOf(new OrchdClient({ url: first.url }));
  await first.stop();
  withoutCharges(data);
  await (await brainOn(t, data, provider)).stop();
  const again = await brainOn(t, data, provider);
  assert.deepEqual(await ledgerOf(new OrchdClient({ url: again.url })), before);
});

test('the answers as CSV are those as JSON, and an answer that breaks off goes on behind its last line', async (t) => {
  const provider = new MeteredProvider('seat', ['m']);
  const brain = await brainOn(t, 'memory', provider);
  await spend(brain, provider);
  const get = async (path: string, headers = {}): Promise<[string | null, string]> => {
    const response = await fetch(brain.url + path, { headers });
    return [response.headers.get('content-type'), await response.text()];
  };
  const client = new OrchdClient({ url: brain.url });
  const lines = await ledgerOf(client);
  const [type, csv] = await get('/v2/usage/ledger?format=csv');
  assert.match(type ?? '', /^text\/csv/);
  const [head = [], ...rows] = readCsv(csv);
  const column = (name: string): string[] => rows.map((row) => row[head.indexOf(name)] ?? '');
  assert.deepEqual(
    column('attempt'),
    lines.map(({ attempt }) => attempt),
  );
  assert.deepEqual(
    column('cost'),
    lines.map(({ cost }) => String(cost)),
  );
  assert.deepEqual(
    column('tags')
      .filter(Boolean)
      .map((tags) => JSON.parse(tags)),
    lines.map(({ tags }) => tags).filter(Boolean),
  );
  const [, sums] = await get('/v2/usage?by=principal,model', { accept: 'text/csv' });
  assert.equal(readCsv(sums).length, 4);
  const third = lines[2] as LedgerLine;
  const [, rest] = await get(
    `/v2/usage/ledger?after=${third.settled_at}.${encodeURIComponent(third.attempt)}`,
  );
  assert.deepEqual(
    jsonLines(rest).map(({ attempt }) => attempt),
    lines.slice(3).map(({ attempt }) => attempt),
  );
  const none = await client.usage({ from: '2020-01-01', to: '2020-02-01', by: ['model'] });
  assert.deepEqual([none.groups, none.total.attempts, none.total.cost], [[], 0, 0]);
});

test('a question that cannot be answered is refused with what is wrong in it', async (t) => {
  const brain = await brainOn(t, 'memory', new MeteredProvider('seat', ['m']));
  const cases: [query: string, why: RegExp][] = [
    ['by=modell', /not "modell"; did you mean "model"/],
    ['by=model,model', /twice/],
    ['by=model,seat,token,session,day', /4 keys/],
    ['by=tag:', /not "tag:"/],
    ['by=tag:a"b', /not "tag:a"b"/],
    ['from=2026-02-30', /a day such as/],
    ['from=yesterday', /a day such as/],
    ['from=2026-02-01T00:00:00', /a day such as/],
    ['from=2026-03-01&to=2026-02-01', /before `to`/],
    ['time_zone=Berlin', /no time zone/],
    ['by=day&from=2020-01-01&to=2026-01-01', /400 days/],
    ['format=xml', /format/],
  ];
  for (const [query, why] of cases) {
    const response = await fetch(`${brain.url}/v2/usage?${query}`);
    const text = await response.text();
    assert.equal(response.status, 400, `${query}: ${text}`);
    assert.match(JSON.parse(text).error.message, why, query);
  }
});

test('a tenant sees what it has spent itself; the operator sees all, or one tenant', async (t) => {
  const provider = new MeteredProvider('seat', ['m']);
  const tokens: TokenEntry[] = [];
  const tokenOf = (name: string, tenant?: string): string => {
    const { token, entry } = makeToken(realEnv().random, 0, name, 'admin', tenant);
    tokens.push(entry);
    return token;
  };
  const [operator, acme, other] = [tokenOf('op'), tokenOf('key', 'acme'), tokenOf('key2', 'other')];
  const brain = await httpBrain({ config: CONFIG, backends: [provider], tokens });
  t.after(() => brain.stop());
  const as = (token: string): OrchdClient => new OrchdClient({ url: brain.url, token });
  for (const token of [operator, acme, acme]) {
    const { job_id } = await as(token).submit({ model: 'm', payload: { tries: ['succeed'] } });
    for await (const _ of as(token).events(job_id));
  }
  const attemptsOf = async (token: string, tenant?: string): Promise<number> =>
    (await as(token).usage({ tenant })).total.attempts;
  assert.deepEqual(
    await Promise.all([
      attemptsOf(operator),
      attemptsOf(operator, 'acme'),
      attemptsOf(acme),
      attemptsOf(other),
    ]),
    [3, 2, 2, 0],
  );
  assert.equal((await ledgerOf(as(acme))).length, 2);
  await assert.rejects(as(acme).usage({ tenant: 'default' }), { code: 'NOT_FOUND' });
  const { groups } = await as(operator).usage({ by: ['tenant', 'token'] });
  assert.deepEqual(
    groups.map(({ group }) => group),
    [
      { tenant: 'acme', token: 'key' },
      { tenant: 'default', token: 'op' },
    ],
  );
});
