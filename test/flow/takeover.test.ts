/** Two brains on one database: the later one leads, and nothing of the earlier one lands any more. */
import assert from 'node:assert/strict';
import { onStores, refusalOf, start, turns } from './flow-kit.ts';
import { Stage } from './stage.ts';

onStores(
  '[NEWS-7] a brain that another one has followed answers nothing more, and leaves no trace',
  ['mariadb'],
  async (t, data) => {
    const stage = new Stage({ slots: 2 });
    t.after(() => stage.endAll());
    const first = await start(t, { data, backends: [stage] });
    await first.submit({ job_id: 'ours' });
    await stage.startedCount(1);
    while ((await first.get('ours')).state !== 'running') await turns(1);
    const second = await start(t, { data, backends: [stage] });
    const refused = await refusalOf(() => first.submit({ job_id: 'late' }));
    assert.equal(refused.code, 'FENCED');
    assert.equal((await refusalOf(() => first.get('ours'))).code, 'FENCED');
    assert.equal((await refusalOf(() => second.get('late'))).code, 'NOT_FOUND');
    stage.end('ours:1');
    assert.equal((await second.wait('ours')).state, 'succeeded');
    assert.deepEqual(stage.started, ['ours:1'], 'what ran goes on under the second one');
  },
);
