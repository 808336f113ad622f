/** Commands take the beginning of a job id, as git does with its ids. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type CliBrain, cliBrain, linesOf, orchd, type Ran, until } from './cli-process.ts';

let brain: CliBrain;

before(async () => {
  brain = await cliBrain();
});
after(async () => {
  brain.gate.open();
  await brain.stop();
});

const here = (...words: string[]): Promise<Ran> => orchd(words, { env: { ORCHD_URL: brain.url } });

async function ended(job_id: string): Promise<void> {
  await brain.orchestrator.submit({ job_id, type: 'quiet', payload: {} });
  await brain.orchestrator.wait(job_id);
}

test('every command that names a job takes a beginning that only one id has, of a live or an ended job', async () => {
  await ended('apple-ended');
  await brain.orchestrator.submit({ job_id: 'pears-dead', type: 'fail', payload: {} });
  await brain.orchestrator.submit({ job_id: 'plums-stale', type: 'forgotten', payload: {} });
  await brain.orchestrator.submit({ job_id: 'grape-first', type: 'held', payload: {} });
  await brain.orchestrator.submit({ job_id: 'melon-waits', type: 'held', payload: {} });
  await brain.orchestrator.wait('pears-dead');
  await until(async () => (await brain.orchestrator.get('plums-stale')).state === 'stale');
  const [shown, explained, tailed] = await Promise.all([
    here('show', 'apple', '--json'),
    here('explain', 'melo'),
    here('tail', 'apple-e', '--json'),
  ]);
  assert.equal(JSON.parse(shown.out).job_id, 'apple-ended');
  assert.match(explained.out, /^melon-waits waits: /);
  assert.equal(tailed.code, 0);
  const done = [
    await here('cancel', 'melon-'),
    await here('redrive', 'pears'),
    await here('resolve', 'plum', '--as', 'failed'),
  ];
  assert.deepEqual(
    done.map(({ code, err }) => [code, err]),
    [
      [0, ''],
      [0, ''],
      [0, ''],
    ],
  );
  assert.match(done[0]!.out, /^melon-waits is cancelled/);
  assert.match(done[1]!.out, /^pears-dead is /);
  assert.match(done[2]!.out, /^plums-stale is resolved/);
});

test('a beginning that several ids have is refused with the candidates, and nothing is changed', async () => {
  await brain.orchestrator.submit({ job_id: 'twin-live', type: 'nobody', payload: {} });
  await ended('twin-ended');
  const [cancelled, shown] = await Promise.all([here('cancel', 'twin', 'twin-e'), here('show', 'twin-')]);
  assert.equal(cancelled.code, 2);
  assert.match(cancelled.out, /^twin-ended had already ended/, 'the other job gets its request');
  assert.match(cancelled.err, /^orchd cancel twin: the ids of several jobs begin with "twin":\n {2}twin-/);
  assert.deepEqual([shown.code, shown.out], [2, '']);
  assert.deepEqual(linesOf(shown.err).length, 3);
  for (const line of [/^ {2}twin-live {2}queued, nobody, .* old$/m, /^ {2}twin-ended {2}succeeded, quiet, /m])
    assert.match(shown.err, line);
  assert.equal((await brain.orchestrator.get('twin-live')).state, 'queued');
});

test('of many candidates ten are listed', async () => {
  for (let n = 0; n < 12; n++)
    await brain.orchestrator.submit({ job_id: `many-${n}`, type: 'nobody', payload: {} });
  const { err } = await here('show', 'many');
  assert.equal(linesOf(err).length, 12);
  assert.match(err, /\n {2}and others\n$/);
});

test('an exact id wins over longer ones, and three characters are too few', async () => {
  await ended('exact');
  await ended('exact-longer');
  assert.equal(JSON.parse((await here('show', 'exact', '--json')).out).job_id, 'exact');
  const short = await here('show', 'exa');
  assert.equal(short.code, 1);
  assert.match(short.err, /there is no job "exa"/);
});

test('a text that begins no id is reported as an unknown job', async () => {
  for (const text of ['nosuch-job', 'with space']) {
    const { code, err } = await here('show', text);
    assert.equal(code, 1);
    assert.match(err, /^orchd show: there is no .*\(NOT_FOUND\)\nCheck the id/);
  }
});
