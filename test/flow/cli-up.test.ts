/** `orchd up` and `orchd token`: a server as it is started by hand, and who may use it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { jsonLines, linesOf, orchd, type Running, start, until } from './cli-process.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-up-'));
const running = new Set<Running>();
let folders = 0;

after(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all([...running].map(({ ended }) => ended));
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

const newFolder = (): string => join(root, `data-${++folders}`);

interface Up extends Running {
  readonly url: string;
}

async function up(data: string, ...words: string[]): Promise<Up> {
  const server = start(['up', '--port', '0', '--data', data, ...words]);
  running.add(server);
  const banner = await server.saw('err', /press Ctrl-C to stop/);
  return { ...server, url: /listens on (\S+)/.exec(banner)![1]! };
}

describe('up', () => {
  test('says where it is and what to try, answers, logs JSON lines only, and stops in order', async () => {
    const data = newFolder();
    const server = await up(data);
    const answer = await orchd(['submit', '--follow', 'how do you do', '--url', server.url]);
    assert.equal(answer.code, 0);
    assert.match(answer.out, /how do you do/);
    server.child.kill('SIGTERM');
    const { code, out, err } = await server.ended;
    assert.equal(code, 0);
    assert.ok(err.includes(`data: ${data}\n`));
    assert.match(err, /^try: {2}npm run orchd -- submit --follow --url \S+ "Hello"\nor: {3}curl /m);
    assert.match(err, /stopping; press Ctrl-C again to end it at once/);
    for (const line of jsonLines(out)) assert.ok('level' in line && 'timestamp' in line);
    assert.ok(!out.includes('how do you do'), 'prompts are not logged');
  });

  test('a stop says what waits and what goes on running, and the next start goes on with it', async () => {
    const file = join(root, 'sleepers.yaml');
    const ready = join(root, 'ready');
    const argv = ['/bin/sh', '-c', `until [ -e ${ready} ]; do sleep 0.05; done; echo over`];
    const sleepers = { name: 'sleepers', slots: 2, types: { sleep: { argv } } };
    writeFileSync(file, JSON.stringify({ backends: { commands: [sleepers] } }));
    const data = newFolder();
    const first = await up(data, '--config', file);
    const ids = ['s1', 's2', 's3', 's4', 's5'];
    for (const id of ids) await orchd(['submit', '--type', 'sleep', '--job-id', id, '--url', first.url]);
    const isRunning = async (): Promise<boolean> => {
      const { out } = await orchd(['status', '--json', '--url', first.url]);
      return JSON.parse(out).status.jobs.running === 2;
    };
    await until(isRunning);
    first.child.kill('SIGTERM');
    const { code, err } = await first.ended;
    assert.equal(code, 0);
    assert.match(
      err,
      /\nstopped; 3 jobs wait, 2 commands go on running\nthe next start runs what waits; the next start takes the results of what runs\n$/,
    );
    writeFileSync(ready, '');
    const second = await up(data, '--config', file);
    for (const id of ids) assert.equal((await orchd(['tail', id, '--url', second.url])).code, 0);
    second.child.kill('SIGTERM');
    assert.match((await second.ended).err, /\nstopped; no job is left\n$/);
  });

  test('[FARRO-8] the moves of a job are JSON lines on standard output, and on nothing else', async () => {
    const server = await up(newFolder());
    const words = ['submit', '--follow', 'hello', '--job-id', 'told', '--url', server.url];
    assert.equal((await orchd(words)).code, 0);
    server.child.kill('SIGTERM');
    const { out, err } = await server.ended;
    const moves = jsonLines(out).filter(({ job_id }) => job_id === 'told');
    const to = moves.map(({ event }) => (event as { to: string }).to);
    assert.deepEqual(to, ['queued', 'claimed', 'running', 'succeeded']);
    for (const line of moves) {
      const fields = ['timestamp', 'level', 'message', 'app', 'actor', 'job_id', 'correlation_id', 'event'];
      for (const field of fields) assert.ok(field in line, field);
    }
    assert.ok(!err.includes('told'));
  });

  test('what was done is there after a restart, in a folder that the environment names', async () => {
    const data = newFolder();
    const first = await up(data);
    await orchd(['submit', 'keep me', '--job-id', 'kept', '--follow', '--url', first.url]);
    first.child.kill('SIGINT');
    assert.equal((await first.ended).code, 0);
    const second = start(['up', '--port', '0'], { env: { ORCHD_DATA: data } });
    running.add(second);
    const url = /listens on (\S+)/.exec(await second.saw('err', /press Ctrl-C/))![1]!;
    const shown = JSON.parse((await orchd(['show', 'kept', '--json', '--url', url])).out);
    assert.equal(shown.state, 'succeeded');
    const locked = await orchd(['up', '--port', '0', '--data', data]);
    assert.equal(locked.code, 2);
    assert.match(
      locked.err,
      /orchd up: .*\(STORE_LOCKED\)\nStop that process, or give another folder with --data/,
    );
  });

  test('a follower outlives a server that is killed, and misses nothing', async () => {
    const file = join(root, 'count.yaml');
    const script = 'for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.4; done';
    const types = { count: { argv: ['/bin/sh', '-c', script] }, gone: { argv: ['/no/such/bin'] } };
    writeFileSync(file, JSON.stringify({ backends: { commands: [{ name: 'counter', slots: 1, types }] } }));
    const data = newFolder();
    const first = await up(data, '--config', file);
    const follower = start(['submit', '--type', 'count', '--follow', '--url', first.url]);
    await follower.saw('out', /2/);
    first.child.kill('SIGKILL');
    assert.deepEqual((await first.ended).err.match(/.* has no program for .*/g), [
      'the backend counter has no program for "gone": argv names a file that does not exist',
    ]);
    await follower.saw('err', /the connection was lost; reconnecting/);
    const { port } = new URL(first.url);
    running.add(start(['up', '--port', port, '--data', data, '--config', file]));
    const { code, out } = await follower.ended;
    assert.deepEqual([code, out], [0, '1\n2\n3\n4\n5\n6\n7\n8\n']);
  });

  test('a port in use, an address for others without a token, and a wrong option are exit 2', async () => {
    const data = newFolder();
    const server = await up(data);
    const { port } = new URL(server.url);
    const [taken, open, wrong] = await Promise.all([
      orchd(['up', '--data', newFolder(), '--port', port]),
      orchd(['up', '--data', newFolder(), '--port', '0', '--host', '0.0.0.0']),
      orchd(['up', '--port', '70000']),
    ]);
    assert.deepEqual([taken.code, open.code, wrong.code], [2, 2, 2]);
    assert.match(taken.err, new RegExp(`127\\.0\\.0\\.1:${port} is in use: choose another port with --port`));
    assert.match(
      open.err,
      /callers need a token: run `orchd token create NAME --role admin --data \S+` first/,
    );
    assert.match(wrong.err, /--port needs a whole number from 0 to 65535, not "70000"/);
  });

  test('the first signal ends a start that is under way', async (t) => {
    const silent = createServer().listen(0, '127.0.0.1');
    t.after(() => silent.close());
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const file = join(root, 'silent.yaml');
    writeFileSync(file, `store: mariadb\nmariadb: { url: 'mariadb://a:b@127.0.0.1:${port}/c' }\n`);
    const server = start(['up', '--port', '0', '--data', newFolder(), '--config', file]);
    running.add(server);
    const [socket] = (await once(silent, 'connection')) as [Socket];
    server.child.kill('SIGTERM');
    await server.saw('err', /stopping before it is up/);
    socket.destroy();
    assert.equal((await server.ended).code, 0);
  });

  test('faults of the configuration are shown with their place, all at once', async () => {
    const file = join(root, 'broken.yaml');
    writeFileSync(file, 'orchestrator:\n  queue_capacity: many\n  queue_polcy: reject\n');
    const { code, err } = await orchd(['up'], { env: { ORCHD_CONFIG: file, ORCHD_LOG_LEVEL: 'loud' } });
    assert.equal(code, 2);
    assert.ok(err.includes(`${file}:2:19: orchestrator.queue_capacity`), err);
    assert.match(err, /broken\.yaml:3:3: .*queue_polcy/);
    assert.match(err, /ORCHD_LOG_LEVEL: log\.level/);
    const missing = await orchd(['up', '--config', join(root, 'none.yaml')]);
    assert.equal(missing.code, 2);
    assert.match(missing.err, /none\.yaml" cannot be read \(ENOENT\)/);
  });

  test('variables of Kubernetes and of other daemons are no obstacle; a misspelt one is warned of', async () => {
    const env = {
      ORCHD_PORT: 'tcp://10.0.171.239:8080',
      ORCHD_PORT_8080_TCP_ADDR: '10.0.171.239',
      ORCHD_SERVICE_HOST: '10.0.171.239',
      ORCHD_SERVICE_PORT_HTTP: '8080',
      ORCHD_POOL_TOKEN: 'a',
      ORCHD_WORKER_TOKEN: 'b',
      ORCHD_UPSTREAM_KEY: 'c',
      ORCHD_LOG_LEVL: 'debug',
    };
    const server = start(['up', '--port', '0', '--data', newFolder()], { env });
    running.add(server);
    const said = await server.saw('err', /press Ctrl-C to stop/);
    assert.deepEqual(said.match(/^.*is not a variable.*$/gm), [
      'orchd: ORCHD_LOG_LEVL is not a variable of orchd and has no effect; did you mean ORCHD_LOG_LEVEL?',
    ]);
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).code, 0);
  });

  test('a model that cannot be answered is exit 2 before anything listens, and says why', async () => {
    const file = (name: string, content: string): string => {
      writeFileSync(join(root, name), content);
      return join(root, name);
    };
    const cases: [string[], RegExp][] = [
      [[join(root, 'none.gguf')], /there is no file ".*none\.gguf"\./],
      [['org/repo'], /there is no file "org\/repo"; a model of the hub is hf:org\/repo\./],
      [[root], /there is no file/],
      [[file('text.gguf', 'no model')], /text\.gguf" is not a model in the format GGUF/],
      [[file('cut.gguf', 'GGUF\u0003')], /cut\.gguf" is not a model in the format GGUF/],
      [['demo:a', 'demo:a', 'openai:b'], /"openai:b" is answered by another server/],
      [['hf:org/none'], /"hf:org\/none" is not in the cache .*`hf download org\/none` fetches it/],
    ];
    const env = { HF_HUB_CACHE: join(root, 'hub') };
    for (const [models, says] of cases) {
      const words = models.flatMap((model) => ['--model', model]);
      const { code, err } = await orchd(['up', '--port', '0', '--data', newFolder(), ...words], { env });
      assert.equal(code, 2, err);
      assert.match(err, says);
      assert.match(err, /^orchd up: --model: /);
      assert.doesNotMatch(err, /listens on/);
    }
  });

  test('without any backend it starts, and says that jobs are refused', async () => {
    const file = join(root, 'bare.yaml');
    writeFileSync(file, 'backends: { demo: false }\n');
    const server = await up(newFolder(), '--config', file);
    assert.match(await server.saw('err', /press/), /nothing here runs jobs: they are refused/);
    server.child.kill('SIGTERM');
    assert.equal((await server.ended).code, 0);
  });
});

describe('token', () => {
  const tokenOf = (out: string): string => out.trim();

  test('a created token works, within its role and its tenant', async () => {
    const data = newFolder();
    const create = (name: string, ...words: string[]) =>
      orchd(['token', 'create', name, '--data', data, ...words]);
    const first = await create('reader', '--role', 'read');
    assert.equal(first.code, 0);
    assert.match(first.out, /^orchd_[0-9a-f]{8}_[0-9a-f]{64}\n$/);
    assert.match(first.err, /not shown again.*\nIt is the first token/);
    // At once: none of them is lost to another.
    const [writer, operator, foreign] = await Promise.all([
      create('writer', '--role', 'submit', '--json'),
      create('operator', '--role', 'operate'),
      create('foreign', '--role', 'admin', '--tenant', 'other'),
    ]);
    const submitToken = JSON.parse(writer.out).token;
    const server = await up(data);
    assert.match(await server.saw('err', /press/), /callers need a token.*\n.*\n.*\$ORCHD_TOKEN/);
    const as = (token: string, ...words: string[]) =>
      orchd([...words, '--url', server.url], { env: { ORCHD_TOKEN: token } });
    assert.equal((await as(submitToken, 'submit', 'a', '--job-id', 'mine', '--follow')).code, 0);
    const [none, reads, writes, orders, wrong, theirs] = await Promise.all([
      orchd(['jobs', '--url', server.url]),
      as(tokenOf(first.out), 'show', 'mine'),
      as(tokenOf(first.out), 'submit', 'b'),
      as(submitToken, 'redrive', 'mine'),
      as(`${tokenOf(first.out).slice(0, -1)}x`, 'jobs'),
      as(tokenOf(foreign.out), 'show', 'mine'),
    ]);
    assert.deepEqual([none.code, /UNAUTHORIZED/.test(none.err)], [2, true]);
    assert.equal(reads.code, 0);
    assert.equal(writes.code, 2);
    assert.match(writes.err, /this needs the role "submit"; the token has "read" \(FORBIDDEN\)/);
    assert.match(orders.err, /needs the role "operate".*\(FORBIDDEN\)/);
    assert.deepEqual([wrong.code, /UNAUTHORIZED/.test(wrong.err)], [2, true]);
    assert.deepEqual([theirs.code, /NOT_FOUND/.test(theirs.err)], [1, true]);
    assert.match((await as(tokenOf(operator.out), 'redrive', 'mine')).err, /ILLEGAL_STATE/);
  });

  test('the file is for its owner only, and holds no token', async () => {
    const data = newFolder();
    const { out } = await orchd(['token', 'create', 'ada', '--role', 'admin', '--data', data]);
    const file = join(data, 'tokens.json');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(statSync(data).mode & 0o777, 0o700);
    assert.ok(!readFileSync(file, 'utf8').includes(out.trim().split('_')[2]!));
  });

  test('list shows everything but hashes; a revoked token is refused by a running server', async () => {
    const data = newFolder();
    const inData = { env: { ORCHD_DATA: data } };
    const ada = await orchd(['token', 'create', 'ada', '--role', 'admin'], inData);
    await orchd(['token', 'create', 'bob', '--role', 'read', '--tenant', 'lab'], inData);
    const table = linesOf((await orchd(['token', 'list'], inData)).out);
    assert.match(table[0]!, /^ID +NAME +ROLE +TENANT +CREATED +MAY USE$/);
    assert.match(table[2]!, /^[0-9a-f]{8} +bob +read +lab +\d{4}-/);
    const [entry] = jsonLines((await orchd(['token', 'list', '--json'], inData)).out);
    assert.deepEqual(Object.keys(entry!), ['id', 'name', 'role', 'tenant', 'created_at']);
    const server = await up(data);
    const asked = async (): Promise<number | null> =>
      (await orchd(['jobs', '--url', server.url], { env: { ORCHD_TOKEN: ada.out.trim() } })).code;
    assert.equal(await asked(), 0);
    const revoked = await orchd(['token', 'revoke', entry!['id'] as string, 'ffffffff'], inData);
    assert.equal(revoked.code, 1);
    assert.match(revoked.out, /\(ada, admin\) is revoked/);
    assert.match(revoked.err, /there is no token "ffffffff"/);
    await until(async () => (await asked()) === 2);
  });

  test('revoking the last token warns; no tokens is no failure', async () => {
    const data = newFolder();
    const none = await orchd(['token', 'list', '--data', data]);
    assert.deepEqual([none.code, none.out, none.err], [0, '', `no tokens in ${data}.\n`]);
    await orchd(['token', 'create', 'ada', '--role', 'read', '--data', data]);
    const [entry] = jsonLines((await orchd(['token', 'list', '--json', '--data', data])).out);
    const { code, err } = await orchd(['token', 'revoke', entry!['id'] as string, '--data', data]);
    assert.equal(code, 0);
    assert.match(err, /No token is left: .* everyone on this machine may do everything again/);
  });

  test('a name is given once in a tenant', async () => {
    const data = newFolder();
    const create = (...words: string[]) => orchd(['token', 'create', 'ada', '--data', data, ...words]);
    assert.equal((await create('--role', 'read')).code, 0);
    const again = await create('--role', 'admin');
    assert.equal(again.code, 2);
    assert.match(again.err, /the tenant "default" has a token "ada" already \([0-9a-f]{8}\)/);
    assert.equal(
      (await create('--role', 'read', '--tenant', 'lab')).code,
      0,
      'another tenant has its own names',
    );
    assert.equal(jsonLines((await orchd(['token', 'list', '--json', '--data', data])).out).length, 2);
  });

  test('a file that is no file of tokens is exit 2, and is left as it is', async () => {
    const data = newFolder();
    await orchd(['token', 'create', 'ada', '--role', 'read', '--data', data]);
    for (const content of ['{"tokens": 1}', 'not json', '{"tokens":[null]}', '[]', 'null']) {
      writeFileSync(join(data, 'tokens.json'), content);
      assert.equal((await orchd(['token', 'create', 'eve', '--role', 'admin', '--data', data])).code, 2);
      assert.equal(readFileSync(join(data, 'tokens.json'), 'utf8'), content);
    }
  });
});
