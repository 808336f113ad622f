import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OrchdClient } from '../client/client.ts';
import { forJob } from './job-id.ts';

/** A client of a server that has these jobs, and the requests that it gets. */
function clientOf(ids: readonly string[], listStatus = 200): { client: OrchdClient; asked: string[] } {
  const asked: string[] = [];
  const answer = (status: number, body: unknown): Response =>
    new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
  const fetch = async (url: string | URL | Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(String(url));
    asked.push(pathname);
    const prefix = searchParams.get('id_prefix');
    if (prefix !== null) {
      const jobs = ids.filter((id) => id.startsWith(prefix)).map((job_id) => ({ job_id, created_at: 0 }));
      return answer(listStatus, listStatus === 200 ? { jobs } : { error: { code: 'INVALID_PARAMS' } });
    }
    const id = pathname.split('/').at(-1) ?? '';
    return ids.includes(id) ? answer(200, { job_id: id }) : answer(404, { error: { code: 'NOT_FOUND' } });
  };
  return { client: new OrchdClient({ url: 'http://brain', fetch: fetch as typeof globalThis.fetch }), asked };
}

test('a whole id costs one request; a beginning costs one lookup and the request for the whole id', async () => {
  const { client, asked } = clientOf(['whole', 'whole-too']);
  assert.equal((await forJob(client, 'whole', (id) => client.get(id))).job_id, 'whole');
  assert.deepEqual(asked.splice(0), ['/v2/tasks/whole']);
  assert.equal((await forJob(client, 'whole-', (id) => client.get(id))).job_id, 'whole-too');
  assert.deepEqual(asked, ['/v2/tasks/whole-', '/v2/tasks', '/v2/tasks/whole-too']);
});

test('a server that has no such lookup answers that there is no such job', async () => {
  const { client } = clientOf(['whole'], 400);
  await assert.rejects(
    forJob(client, 'whol', (id) => client.get(id)),
    { code: 'NOT_FOUND' },
  );
});
