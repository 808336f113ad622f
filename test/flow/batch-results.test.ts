/** `orchd wait`, `orchd results`, `orchd batches`, and cancel and redrive by filter. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type HowToRun, jsonLines, linesOf, MAIN, orchd, type Ran, until } from './cli-process.ts';

let brain: HttpBrain;
let client: OrchdClient;
const gate = Promise.withResolvers<string>();
let isMended = false;
const folder = mkdtempSync(join(tmpdir(), 'orchd-results-'));

before(async () => {
  const fail = (): string => {
    if (isMended) return 'mended';
    throw Object.assign(new Error('=bad, "very" bad'), { retriable: false });
  };
  brain = await httpBrain({
    backends: [
      {
        name: 'b',
        slots: 1000,
        types: { echo: (payload: unknown) => payload, fail, gated: () => gate.promise },
      },
    ],
  });
  client = new OrchdClient({ url: brain.url });
});
after(async () => {
  gate.resolve('');
  await brain.stop();
  rmSync(folder, { recursive: true, force: true });
});

const here = (words: readonly string[], how: HowToRun = {}): Promise<Ran> =>
  orchd(words, { ...how, env: { ORCHD_URL: brain.url, ...how.env } });

const echo = (payload: unknown, more: object = {}): object => ({ type: 'echo', payload, ...more });

/** Submits jobs as `orchd submit --file` would, in this order of lines. */
async function fill(batch: string, jobs: readonly (readonly [line: number, job: object])[]): Promise<void> {
  const source = jobs.map(([line, job]) => ({ ...job, job_id: `${batch}.${line}` }));
  for await (const answer of client.submitLines(source, { batch })) assert.equal(answer.http_status, 202);
}

test('results are in the order of the lines, whatever the order of admission was', async () => {
  const order = [3, 1, 2, 9, 8, 4, 5];
  await fill(
    'order',
    order.map((line) => [line, echo({ text: `t${line}` })]),
  );
  assert.equal((await here(['wait', 'order'])).code, 0);
  const { code, out } = await here(['results', 'order']);
  assert.equal(code, 0);
  assert.deepEqual(
    jsonLines(out).map(({ line, job_id, result }) => [line, job_id, result]),
    [1, 2, 3, 4, 5, 8, 9].map((line) => [line, `order.${line}`, { text: `t${line}` }]),
  );
  const only = await here(['results', 'order', '--only-result']);
  assert.deepEqual(jsonLines(only.out)[6], { text: 't9' });
});

test('CSV is RFC 4180; a text that a spreadsheet would run gets an apostrophe', async () => {
  const texts = ['plain', 'a, "b"\nc', '=1+1', '-5', '@x'];
  await fill('csv', [
    ...texts.map((text, at) => [at + 1, echo({ text })] as const),
    [6, { type: 'fail', payload: null }],
    [7, echo('only a text')],
    [8, echo([1])],
  ]);
  await here(['wait', 'csv']);
  const { out } = await here(['results', 'csv', '--format', 'csv']);
  const rows = out.split('\r\n');
  assert.equal(
    rows[0],
    'line,job_id,state,model,text,result,error_code,error_message,failed_tries,duration_ms',
  );
  assert.match(rows[1]!, /^1,csv\.1,succeeded,,plain,,,,0,\d+$/);
  assert.match(rows[2]!, /^2,csv\.2,succeeded,,"a, ""b""\nc",/);
  assert.match(rows[3]!, /^3,csv\.3,succeeded,,'=1\+1,/);
  assert.match(rows[4]!, /^4,csv\.4,succeeded,,-5,/);
  assert.match(rows[5]!, /^5,csv\.5,succeeded,,'@x,/);
  assert.match(rows[6]!, /^6,csv\.6,dead,,,,EXECUTION_FAILED,"'=bad, ""very"" bad",\d,\d+$/);
  assert.match(rows[7]!, /^7,csv\.7,succeeded,,only a text,/);
  assert.match(rows[8]!, /^8,csv\.8,succeeded,,,\[1\],/);
  assert.equal(rows[9], '');
  const asked = await here(['results', 'csv', '--format', 'csv', '--payload', '--state', 'dead']);
  assert.match(asked.out, /,duration_ms,payload\r\n6,csv\.6,dead,.*,null\r\n$/);
});

test('the payloads of prompts are lines that can be submitted again', async () => {
  await client.submit({
    prompt: 'again',
    wait_for_backend: true,
    batch: 'anew',
    job_id: 'anew.1',
  });
  await here(['cancel', 'anew.1']);
  const { out } = await here(['results', 'anew', '--state', 'cancelled', '--payload']);
  const path = join(folder, 'again.jsonl');
  writeFileSync(
    path,
    jsonLines(out)
      .map(({ payload }) => JSON.stringify(payload))
      .join('\n'),
  );
  const checked = await here(['submit', '--file', path, '--dry-run']);
  rmSync(path);
  assert.deepEqual([checked.code, /1 job, no fault/.test(checked.err)], [0, true], checked.err);
});

test('--output appears complete, and leaves nothing else behind; --state filters', async () => {
  await fill('out', [
    [1, echo('one')],
    [2, { type: 'fail', payload: null }],
  ]);
  await here(['wait', 'out']);
  const path = join(folder, 'answers.jsonl');
  writeFileSync(path, 'old');
  const { code, out, err } = await here(['results', 'out', '--output', path]);
  assert.deepEqual([code, out, err], [0, '', `${path}: 2 results.\n`]);
  assert.deepEqual(
    jsonLines(readFileSync(path, 'utf8')).map(({ state }) => state),
    ['succeeded', 'dead'],
  );
  assert.deepEqual(readdirSync(folder), ['answers.jsonl']);
  const dead = await here(['results', 'out', '--state', 'dead']);
  assert.deepEqual(
    jsonLines(dead.out).map(({ line }) => line),
    [2],
  );
  assert.equal((await here(['results', 'out', '--output', join(folder, 'no', 'such')])).code, 2);
});

test('a batch that still runs: what has ended is printed, exit 3; wait has a time limit, exit 124', async () => {
  await fill('live', [
    [1, { type: 'gated', payload: 1 }],
    [2, echo('two')],
  ]);
  await until(async () => (await client.batch('live')).live_jobs === 1);
  const { code, out, err } = await here(['results', 'live']);
  assert.equal(code, 3);
  assert.deepEqual(
    jsonLines(out).map(({ line }) => line),
    [2],
  );
  assert.match(err, /1 of 2 jobs has not ended/);
  const timed = await here(['wait', 'live', '--timeout', '50ms']);
  assert.equal(timed.code, 124);
  assert.match(timed.err, /50 ms have passed; 1 of 2 jobs has not ended/);
  const both = here(['results', 'live', '--wait', '--only-result']);
  gate.resolve('opened');
  const ended = await both;
  assert.deepEqual([ended.code, ended.out], [0, '"opened"\n"two"\n']);
});

test('wait says how many are dead and what to do; jobs and batches can be mixed; an unknown id is refused', async () => {
  await fill('sad', [
    [1, echo(1)],
    [2, { type: 'fail', payload: null }],
  ]);
  const single = (await client.submit(echo(1))).job_id;
  const { code, err } = await here(['wait', 'sad', single.slice(0, -1), 'sad']);
  assert.equal(code, 1);
  assert.match(err, /^batch sad: 1 succeeded, 1 dead\.$|^batch sad: 1 dead, 1 succeeded\.$/m);
  assert.match(err, /`orchd redrive --batch sad --yes` queues them again/);
  assert.match(err, new RegExp(`^job ${single}: 1 succeeded\\.$`, 'm'));
  const unknown = await here(['wait', 'nobody']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.err, /no batch and no job "nobody" \(NOT_FOUND\)\n.*`orchd batches` and `orchd jobs`/);
  const results = await here(['results', 'nobody']);
  assert.equal(results.code, 1);
  assert.match(results.err, /there is no batch "nobody" \(NOT_FOUND\)\n.*`orchd batches` lists/);
});

test('cancel and redrive by filter show what they would do, and need --yes where nobody can be asked', async () => {
  await fill('bulk', [
    ...Array.from(
      { length: 12 },
      (_, at) => [at + 1, { type: 'fail', payload: null, tags: { k: 'v' } }] as const,
    ),
    [13, echo(1, { tags: { k: 'other' } })],
  ]);
  await here(['wait', 'bulk']);
  const dry = await here(['redrive', '--batch', 'bulk', '--tag', 'k=v', '--dry-run']);
  assert.deepEqual([dry.code, dry.err], [0, '']);
  assert.match(dry.out, /^12 dead jobs: bulk\.1, .*, and 2 more$/m);
  const asked = await here(['redrive', '--batch', 'bulk']);
  assert.equal(asked.code, 2);
  assert.match(asked.err, /12 dead jobs: [\s\S]*add --yes to redrive them/);
  isMended = true;
  const done = await here(['redrive', '--batch', 'bulk', '--yes']);
  assert.deepEqual([done.code, done.out], [0, '12 jobs queued again\n']);
  assert.equal((await here(['wait', 'bulk'])).code, 0);
  const none = await here(['cancel', '--tag', 'k=v', '--yes']);
  assert.deepEqual([none.code, none.out], [0, 'no live job matches.\n']);
  const mixed = await here(['cancel', 'id', '--batch', 'bulk']);
  assert.equal(mixed.code, 2);
  assert.match(mixed.err, /give ids or filters, not both/);
  const listed = await here(['jobs', '--batch', 'bulk', '--tag', 'k=other', '--json']);
  assert.deepEqual(
    jsonLines(listed.out).map(({ job_id }) => job_id),
    ['bulk.13'],
  );
});

test('batches is a table, or JSON lines; a tag filters', async () => {
  await client.createBatch({ batch_id: 'tagged', name: 'a name', tags: { team: 'x' } });
  const { out } = await here(['batches', '--tag', 'team=x']);
  assert.match(linesOf(out)[0]!, /^BATCH +JOBS +LIVE +SUCCEEDED +DEAD +CANCELLED +AGE +LEFT +NAME$/);
  assert.match(linesOf(out)[1]!, /^tagged +0 +0 .* a name$/);
  assert.equal(linesOf(out).length, 2);
  const json = await here(['batches', '--json', '--limit', '1']);
  assert.deepEqual(
    jsonLines(json.out).map(({ batch_id }) => batch_id),
    ['tagged'],
  );
});

test('a reader of the results that leaves early, as head does, is no error', async () => {
  await fill(
    'long',
    Array.from({ length: 3000 }, (_, at) => [at + 1, echo('x'.repeat(500))]),
  );
  const shell = `"${process.execPath}" "${MAIN}" results long --wait | head -n 1 | cut -c1-9; echo "\${PIPESTATUS[0]}"`;
  const child = spawn('bash', ['-c', shell], { env: { ...process.env, ORCHD_URL: brain.url } });
  let out = '';
  child.stdout.on('data', (piece) => {
    out += piece;
  });
  await once(child, 'close');
  assert.equal(out, '{"line":1\n0\n');
});

test('results that break off again and again are complete, without a repeated line', async (t) => {
  await fill(
    'cut',
    Array.from({ length: 1000 }, (_, at) => [at + 1, echo(at)]),
  );
  await client.waitForBatch('cut', { pollMs: 10 });
  let cuts = 0;
  // Passes on 40,000 bytes of each answer, in the middle of a line.
  const proxy = createServer(async (request, response) => {
    const answer = await fetch(brain.url + request.url);
    const bytes = Buffer.from(await answer.arrayBuffer());
    const isCut = request.url?.includes('/results') && bytes.length > 40_000;
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') as string });
    if (!isCut) return response.end(bytes);
    cuts++;
    return response.write(bytes.subarray(0, 40_000), () => response.destroy());
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.after(() => proxy.close());
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const { code, out } = await here(['results', 'cut', '--only-result', '--url', url]);
  assert.equal(code, 0);
  assert.deepEqual(
    linesOf(out),
    Array.from({ length: 1000 }, (_, at) => String(at)),
  );
  assert.ok(cuts > 3, `${cuts} cuts`);
});
