/** Jobs that are submitted and read in the words of the table orchestrator_jobs. */
import assert from 'node:assert/strict';
import { connector } from '../../src/stores/mariadb/sql.ts';
import { httpBrain } from '../fakes/http-brain.ts';
import { isDatabase, LASTING, onStores, placed } from './flow-kit.ts';

interface Row {
  readonly status: string;
  readonly owner_pool: string | null;
  readonly attempts: number;
  readonly last_error: string | null;
}

onStores(
  '[NEWS-5] a job is submitted under an id of its own, and read in the words of its row in the table',
  LASTING,
  async (t, data) => {
    const open = Promise.withResolvers<void>();
    const running = Promise.withResolvers<void>();
    const types = {
      good: async () => {
        running.resolve();
        await open.promise;
        return 'done';
      },
      bad: () => {
        throw Object.assign(new Error('no luck'), { retriable: false });
      },
    };
    const brain = await httpBrain(placed({ data, backends: [{ name: 'b', slots: 1, types }] }));
    t.after(() => brain.stop());
    const rows = async (id: string): Promise<Row> => (await fetch(`${brain.url}/jobs/${id}`)).json() as never;
    const submit = (body: object) =>
      fetch(`${brain.url}/jobs/submit`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    const good = { job_id: 'good', type: 'good', payload: { n: 1 } };
    const first = await submit(good);
    assert.equal(first.status, 202);
    assert.partialDeepStrictEqual(await first.json(), { job_id: 'good', type: 'good', last_error: null });
    await running.promise;
    await submit({ ...good, job_id: 'second' });
    assert.partialDeepStrictEqual(await rows('second'), { status: 'pending', attempts: 0, owner_pool: null });
    assert.equal((await submit(good)).status, 202);
    assert.equal((await submit({ ...good, payload: { n: 2 } })).status, 409);
    assert.equal((await submit({ ...good, job_id: undefined })).status, 400);
    assert.equal((await submit({ ...good, job_id: 'other', type: 'unknown' })).status, 422);
    assert.equal((await fetch(`${brain.url}/jobs/other`)).status, 404);
    const runs = await rows('good');
    assert.ok(['claimed', 'running'].includes(runs.status), runs.status);
    assert.deepEqual([runs.owner_pool, runs.attempts], ['b', 1]);
    open.resolve();
    await brain.orchestrator.wait('good');
    assert.partialDeepStrictEqual(await rows('good'), { status: 'done', attempts: 1, last_error: null });
    await submit({ job_id: 'bad', type: 'bad', payload: null });
    await brain.orchestrator.wait('bad');
    const dead = await rows('bad');
    assert.deepEqual(
      [dead.status, dead.attempts, dead.last_error],
      ['dead_letter', 1, 'EXECUTION_FAILED: no luck'],
    );
    if (!isDatabase(data)) return;
    const sql = await connector(data)();
    for (const id of ['good', 'bad']) {
      const columns = 'status, owner_pool, attempts, last_error';
      const [row] = await sql.query<Row>(`SELECT ${columns} FROM orchestrator_jobs WHERE job_id = ?`, [id]);
      const { status, owner_pool, attempts, last_error } = await rows(id);
      assert.deepEqual({ ...row }, { status, owner_pool, attempts, last_error });
    }
    await sql.close();
  },
);
