/** Lines of jobs that are sent to a node which does not lead, while the leader dies. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { type OwnServer, ownMariaDb } from '../fakes/mariadb.ts';
import { Cluster } from './cluster-kit.ts';

let server: OwnServer;
before(async () => {
  server = await ownMariaDb();
});
after(() => server.stop());

interface LineAnswer {
  readonly line: number;
  readonly http_status: number;
  readonly job_id?: string;
}

test('lines sent to a standby are each admitted once, in order, also when the leader is killed in between', {
  timeout: 120_000,
}, async (t) => {
  const cluster = await Cluster.on(t, server);
  const a = await cluster.start('a');
  await cluster.leads(a);
  const b = await cluster.start('b');
  await cluster.until(async () => (await cluster.leaderOf(b)).leader === 'a');
  const { hostname, port } = new URL(b.url);
  const out = request({
    hostname,
    port,
    path: '/v2/tasks?batch=b',
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
  });
  out.flushHeaders();
  const [response] = await once(out, 'response');
  let text = '';
  response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const answered = (): number => text.split('\n').length - 1;
  const send = (from: number, to: number): void => {
    for (let n = from; n <= to; n++)
      out.write(`${JSON.stringify({ job_id: `j${n}`, type: 'nobody', wait_for_backend: true })}\n`);
  };
  send(1, 1500);
  await cluster.until(() => answered() >= 1000);
  await a.kill();
  send(1501, 3000);
  out.end();
  await once(response, 'end');
  const answers = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as LineAnswer);
  assert.deepEqual(
    answers.map(({ line, http_status, job_id }) => [line, http_status, job_id]),
    Array.from({ length: 3000 }, (_, at) => [at + 1, 202, `j${at + 1}`]),
  );
  const results = await fetch(`${b.url}/v2/batches/b/results`);
  const ids = (await results.text())
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { job_id: string }).job_id);
  assert.deepEqual(
    ids,
    Array.from({ length: 3000 }, (_, at) => `j${at + 1}`),
  );
});
