/** `orchd replay`, `orchd fork` and `orchd eval` as real processes. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Site, site } from './agent-site.ts';
import { jsonLines, orchd } from './cli-process.ts';

const AGENT = { name: 'helper', model: 'm', tools: ['current_time', 'read_file'], files: { root: '.' } };

async function recorded(t: TestContext): Promise<Site & { readonly folder: string; readonly runId: string }> {
  const place = await site(t, (turn, reply) => {
    if (turn === 0) reply.call('current_time', {});
    else reply.say('It is late.').end();
  });
  const folder = mkdtempSync(join(tmpdir(), 'orchd-eval-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const env = { ORCHD_URL: place.brain.url };
  const { out } = await orchd(['run', 'helper', 'What time is it?', '--json'], { env });
  return { ...place, folder, runId: String(jsonLines(out)[0]?.['run_id']) };
}

test('a run is replayed with its agent, with that of the server and with that of a file; forked; and saved', async (t) => {
  const { brain, folder, runId, model } = await recorded(t);
  const env = { ORCHD_URL: brain.url };
  const asked = (): number => model.asked.filter(({ what }) => what.includes('/chat/')).length;
  const heard = asked();
  const same = await orchd(['replay', runId], { env });
  assert.deepEqual([same.code, same.out, same.err], [0, `${runId}: equal: 3 steps, and the same end\n`, '']);
  assert.equal((await orchd(['replay', runId, '--current'], { env })).code, 0);
  const file = join(folder, 'agent.yaml');
  writeFileSync(file, JSON.stringify({ ...AGENT, instructions: 'Be kind.' }));
  const changed = await orchd(['replay', runId, '--agent', file], { env });
  assert.deepEqual([changed.code, changed.err], [1, '']);
  assert.match(
    changed.out,
    /differs at step 1 \(llm_call\): message 1 \(system\) was ".*", is now "Be kind\./,
  );
  const json = await orchd(['replay', runId, '--agent', file, '--json'], { env });
  assert.deepEqual(
    jsonLines(json.out).map(({ equal }) => equal),
    [false],
  );
  assert.equal(asked(), heard, 'the model was not asked');
  const saved = join(folder, 'run.json');
  const { code } = await orchd(['replay', runId, '--save', saved], { env });
  assert.deepEqual([code, statSync(saved).mode & 0o777], [0, 0o600]);
  const fork = await orchd(['fork', runId, '--step', '3', '--id', 'f', '--instructions', `@${file}`], {
    env,
  });
  assert.deepEqual([fork.code, fork.out, fork.err], [0, 'f\n', '']);
  const wrong: readonly (readonly string[])[] = [
    ['replay'],
    ['replay', runId, '--current', '--agent', file],
    ['replay', runId, '--agent', join(folder, 'none.yaml')],
    ['replay', runId, '--save', join(folder, 'none', 'x.json')],
    ['fork', runId],
    ['fork', runId, '--step', '99'],
    ['eval'],
  ];
  for (const words of wrong) assert.equal((await orchd(words, { env })).code, 2, words.join(' '));
  assert.equal((await orchd(['replay', 'nobody'], { env })).code, 1);
});

test('a folder of saved runs is a regression test of an agent, without a server', async (t) => {
  const { brain, folder, runId } = await recorded(t);
  const runs = join(folder, 'runs');
  mkdirSync(runs);
  const saved = join(runs, 'a.json');
  const env = { ORCHD_URL: brain.url };
  assert.equal((await orchd(['replay', runId, '--save', saved], { env })).code, 0);
  const nowhere = { ORCHD_URL: 'http://127.0.0.1:1' };
  const equal = await orchd(['eval', runs], { env: nowhere });
  assert.deepEqual([equal.code, equal.err], [0, '']);
  assert.match(equal.out, /a\.json {2}equal: 3 steps, and the same end\n1 run: 1 equal, 0 different\.\n$/);
  const file = join(folder, 'config.yaml');
  const edited = { ...AGENT, tools: ['current_time', 'read_file', 'list_files'] };
  writeFileSync(file, `agents: ${JSON.stringify([{ name: 'other', model: 'm' }, edited])}\n`);
  const differs = await orchd(['eval', runs, '--agent', file], { env: nowhere });
  assert.deepEqual([differs.code, differs.err], [1, '']);
  assert.match(
    differs.out,
    /a\.json {2}differs at step 1 \(llm_call\): payload\.tools\[2\] was nothing, is now/,
  );
  assert.match(differs.out, /by what they have used: 2 calls of models, 10 tokens, no price is known/);
  const json = await orchd(['eval', runs, '--agent', file, '--json'], { env: nowhere });
  assert.deepEqual([json.code, jsonLines(json.out)[0]?.['equal']], [1, false]);

  // Bad input: each is told by name, and the others are still replayed.
  const text = JSON.parse(readFileSync(saved, 'utf8'));
  const bad = { 'b.json': 'no JSON', 'c.json': '{}', 'd.json': JSON.stringify({ ...text, orchd_run: 9 }) };
  for (const [name, content] of Object.entries(bad)) writeFileSync(join(runs, name), content);
  writeFileSync(
    join(runs, 'e.json'),
    JSON.stringify({ ...text, calls: text.calls.map((each: object) => ({ ...each, payload: 7 })) }),
  );
  const mixed = await orchd(['eval', runs], { env: nowhere });
  assert.equal(mixed.code, 2);
  assert.match(mixed.err, /b\.json: it is no JSON\n/);
  assert.match(mixed.err, /c\.json: it is no saved run: /);
  assert.match(mixed.err, /d\.json: it is no saved run: it was saved by a newer orchd/);
  assert.match(mixed.out, /a\.json {2}equal/);
  assert.match(mixed.out, /e\.json {2}differs at step 1/);
  writeFileSync(file, 'agents: [{name: helper, model: m, tols: []}]');
  const unusable = await orchd(['eval', saved, '--agent', file], { env: nowhere });
  assert.equal(unusable.code, 2);
  assert.match(unusable.err, /tols/);
  writeFileSync(file, JSON.stringify({ ...AGENT, tools: ['nobody'] }));
  assert.equal((await orchd(['eval', saved, '--agent', file], { env: nowhere })).code, 2);
  assert.equal((await orchd(['eval', join(folder, 'none')], { env: nowhere })).code, 2);
});
