/** `orchd run` and `orchd agents` as real processes, against a real server and a model behind an OpenAI-compatible API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Reply, site, until } from './agent-site.ts';
import { jsonLines, orchd, start } from './cli-process.ts';

test('a run prints what its model says, and on standard error the tools that it calls and what fails', async (t) => {
  const { run, brain } = await site(t, (turn, reply) => {
    if (turn === 0) reply.say('Let me look.').call('read_file', { path: 'no-such-file' });
    else if (turn === 1) reply.call('current_time', {});
    else reply.say('It is ').say('late.').end();
  });
  const { code, out, err } = await run('helper', 'What time is it?').ended;
  assert.deepEqual([code, out], [0, 'Let me look.\nIt is late.\n'], err);
  assert.match(
    err,
    /^orchd: calls the tool read_file\norchd: the tool read_file failed: .*no-such-file.*\norchd: calls the tool current_time\n$/,
  );
  const json = await start(['run', 'helper', '--json', '--tag', 'of=test'], {
    env: { ORCHD_URL: brain.url },
    input: 'What time is it?',
  }).ended;
  const [result] = jsonLines(json.out);
  assert.deepEqual([json.code, json.err, result?.['reply'], result?.['error']], [0, '', 'It is late.', null]);
  assert.equal((result!['steps'] as unknown[]).length, 5);
});

test('a run that fails is exit 1 with its error, and nothing on standard output', async (t) => {
  const { run, brain } = await site(t, (_turn, reply) => reply.end());
  const { code, out, err } = await run('lost', 'Hello').ended;
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /^orchd: run run-\w+ failed: there is no model "no-such-model".* \(MODEL_NOT_FOUND\)$/m);
  const unknown = await run('helpr', 'Hello').ended;
  assert.equal(unknown.code, 1);
  assert.match(
    unknown.err,
    /there is no agent "helpr"; did you mean "helper"\? \(NOT_FOUND\)\n.*`orchd agents`/,
  );
  const env = { ORCHD_URL: brain.url };
  for (const words of [['run'], ['run', 'helper'], ['run', 'helper', 'two', 'words'], ['run', 'helper', '-']])
    assert.equal((await orchd(words, { env })).code, 2, words.join(' '));
});

test('the brain is killed in the middle of a run: the command goes on, and prints the answer once', {
  timeout: 120_000,
}, async (t) => {
  const held = Promise.withResolvers<Reply>();
  const { run, again } = await site(t, (turn, reply) => {
    if (turn === 0) reply.call('current_time', {});
    else held.resolve(reply.say('It is '));
  });
  const running = run('helper', 'What time is it?');
  await running.saw('out', /It is /);
  await again();
  (await held.promise).say('late.').end();
  const { code, out, err } = await running.ended;
  assert.deepEqual([code, out], [0, 'It is late.\n'], err);
  const told = err.replaceAll(/^orchd: (the run )?waits in the queue.*\n/gm, ''); // on a slow machine
  assert.equal(told, 'orchd: calls the tool current_time\norchd: the connection was lost; reconnecting\n');
});

test('an answer that ends while there is no brain is printed to its end', { timeout: 120_000 }, async (t) => {
  const held = Promise.withResolvers<Reply>();
  const { run, brain, again } = await site(t, (_turn, reply) => held.resolve(reply.say('It is ')));
  const running = run('helper', 'What time is it?');
  await running.saw('out', /It is /);
  await brain.kill();
  (await held.promise).say('late.').end();
  await again();
  const { code, out, err } = await running.ended;
  assert.deepEqual([code, out], [0, 'It is late.\n'], err);
});

test('Ctrl-C cancels a run, and leaves one of the class batch running', async (t) => {
  const { run, brain } = await site(t, (_turn, reply) => reply.say('It is '));
  const mine = run('helper', 'What time is it?');
  await mine.saw('out', /It is /);
  mine.child.kill('SIGINT');
  const cancelled = await mine.ended;
  assert.equal(cancelled.code, 130);
  const id = /orchd: (run-\w+) is (being )?cancelled/.exec(cancelled.err)?.[1] ?? cancelled.err;
  await until(async () => (await brain.api.get(`/v2/runs/${id}`)).state === 'cancelled');
  const batch = run('helper', 'What time is it?', '--priority', 'batch');
  await batch.saw('out', /It is /);
  batch.child.kill('SIGINT');
  const left = await batch.ended;
  assert.equal(left.code, 130);
  const other = /orchd: (run-\w+) keeps running; `orchd show/.exec(left.err)?.[1] ?? left.err;
  assert.equal((await brain.api.get(`/v2/runs/${other}`)).state, 'llm_call');
});

test('a run that waits for its model says so, one that is detached prints its id, and one can be cancelled', async (t) => {
  const { run, brain } = await site(t, (_turn, reply) => reply.say('It is '), 1);
  const first = await run('helper', 'First', '--detach').ended;
  assert.match(first.out, /^run-\w+\n$/);
  const id = first.out.trim();
  await until(async () => (await brain.api.get(`/v2/runs/${id}`)).state === 'llm_call');
  const second = run('helper', 'Second');
  await second.saw('err', /orchd: waits in the queue for its model/);
  const [waiting] = (await brain.api.get('/v2/tasks?type=agent&state=waiting')).jobs;
  await brain.api.post(`/v2/runs/${waiting.job_id}/cancel`, {});
  const { code, out, err } = await second.ended;
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, new RegExp(`orchd: run ${waiting.job_id} was cancelled\\.`));
});

test('a call that must be allowed waits for orchd approve, and is shown by orchd approvals', async (t) => {
  const { run, brain } = await site(t, (turn, reply, { messages }) => {
    if (turn === 0) reply.call('current_time', { time_zone: 'Europe/Rome' });
    else reply.say(messages.at(-1)?.content.startsWith('error') ? 'Denied.' : 'Told.').end();
  });
  const env = { ORCHD_URL: brain.url };
  assert.match((await orchd(['approvals'], { env })).err, /^no call of a tool waits/);
  for (const [words, said] of [
    [[], 'Told.\n'],
    [['--deny', '--why', 'not now'], 'Denied.\n'],
  ] as const) {
    const running = run('careful', 'What time is it?');
    const told = await running.saw('err', /wants to call the tool current_time: orchd approve (\S+)\n/);
    const call = /orchd approve (\S+)/.exec(told)?.[1] ?? '';
    const listed = await orchd(['approvals'], { env });
    assert.ok(
      listed.out.includes(`${call}\n  careful wants to call current_time {"time_zone":"Europe/Rome"}`),
    );
    assert.equal((await orchd(['approve', call, ...words], { env })).code, 0);
    const { code, out, err } = await running.ended;
    assert.deepEqual([code, out], [0, said], err);
    assert.equal(/was denied: not now/.test(err), words.length > 0);
    const again = await orchd(['approve', call], { env });
    assert.equal(again.code, 1);
    assert.match(again.err, /no call ".*" waits to be allowed/);
  }
});

test('orchd runs pauses a run and lets it go on; a wrong word or id does nothing', async (t) => {
  const { run, brain } = await site(t, (turn, reply) => {
    if (turn === 0) reply.call('current_time', { time_zone: 'Europe/Rome' });
    else reply.say('Told.').end();
  });
  const env = { ORCHD_URL: brain.url };
  const runs = (...words: string[]) => orchd(['runs', ...words], { env });
  const running = run('careful', 'What time is it?');
  const told = await running.saw('err', /orchd approve (\S+)\n/);
  const call = /orchd approve (\S+)/.exec(told)?.[1] ?? '';
  const id = call.replace(/\.\d+\.\d+$/, '');
  assert.equal((await runs('pause', id)).out, `${id} is paused.\n`);
  assert.equal((await orchd(['approve', call], { env })).code, 0);
  await running.saw('err', /the run is paused/);
  assert.deepEqual(
    [(await runs()).code, (await runs('stop', id)).code, (await runs('pause')).code],
    [2, 2, 2],
  );
  assert.match((await runs('pause', 'none')).err, /none|no such/);
  assert.match((await runs('resume', id)).out, /goes on/);
  const { code, out } = await running.ended;
  assert.deepEqual([code, out], [0, 'Told.\n']);
  assert.equal((await runs('resume', id)).code, 1);
});

test('orchd agents lists the agents, or shows one', async (t) => {
  const { brain } = await site(t, (_turn, reply) => reply.end());
  const env = { ORCHD_URL: brain.url };
  const { out } = await orchd(['agents'], { env });
  assert.match(
    out,
    /^AGENT +MODEL +VERSION +TOOLS +DESCRIPTION\nhelper +m +\w{12} +current_time,read_file +Helps\./,
  );
  const one = await orchd(['agents', 'helper'], { env });
  assert.match(one.out, /^helper\n {2}model {4}m\n {2}tools {4}current_time, read_file\n/);
  const json = jsonLines((await orchd(['agents', '--json'], { env })).out);
  assert.deepEqual(
    json.map(({ name }) => name),
    ['helper', 'lost', 'careful'],
  );
  const unknown = await orchd(['agents', 'nobody'], { env });
  assert.equal(unknown.code, 1);
  assert.match(unknown.err, /there is no agent "nobody"/);
});
