import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ownSentinel } from '../../../test/fakes/redis.ts';
import {
  connected,
  doorbellOn,
  hint,
  hints,
  isUp,
  loggedLines,
  type OwnRedis,
  readAs,
  sweepUntil,
  testRedis,
  tokensIn,
  until,
} from '../../../test/fakes/redis-kit.ts';
import { freePort } from '../../kit/free-port.ts';
import type { Reply } from './client.ts';
import { problemsOf } from './server-check.ts';

/** Problems of a connection that has looked at the server, and the log until then. */
async function problemsAt(t: TestContext, settings: Readonly<Record<string, unknown>>) {
  const { logger, lines } = loggedLines();
  const connection = await connected(t, settings, logger);
  await until(() => connection.isUp || connection.problems().length > 0);
  return { problems: connection.problems(), lines, connection };
}

test('a server without faults has no problem, and none is logged', async (t) => {
  const redis = await testRedis(t);
  const { problems, lines } = await problemsAt(t, { url: redis.url });
  assert.deepEqual([problems, lines], [[], []]);
  assert.deepEqual(await redis.call('DBSIZE'), 0, 'the look at the server has changed nothing');
});

test('an eviction policy that drops keys is said at start and until it is changed', async (t) => {
  const redis = await testRedis(t, { args: ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'] });
  const { problems, lines } = await problemsAt(t, { url: redis.url });
  assert.match(problems.join(), /^Redis may drop keys \(maxmemory-policy allkeys-lru\)/);
  assert.match(lines.join(), /"level":"warn".*allkeys-lru/);
  await redis.call('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  assert.deepEqual((await problemsAt(t, { url: redis.url })).problems, []);
});

test('keys that should be streams and are not are named', async (t) => {
  const redis = await testRedis(t);
  await redis.call('SET', 'stream:orchestrator:control', 'x');
  await redis.call('RPUSH', 'stream:orchestrator:dlq', 'x');
  const { problems } = await problemsAt(t, { url: redis.url });
  assert.deepEqual(problems, [
    'in Redis, stream:orchestrator:control, stream:orchestrator:dlq should be a stream and is of another type: delete it',
  ]);
});

test('a replica is said to be read-only, and nothing is thrown', async (t) => {
  const master = await testRedis(t);
  const replica = await testRedis(t, { args: ['--replicaof', '127.0.0.1', String(master.port)] });
  const { connection, doorbell } = await doorbellOn(t, { url: replica.url });
  await isUp(connection);
  doorbell.publish(hint(1));
  await doorbell.idle();
  assert.match(connection.problems().join(), /^Redis is a read-only replica/);
});

test('a server that is full is said to be, and what waits is published when it has room', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  await redis.call('CONFIG', 'SET', 'maxmemory', '1mb');
  site.doorbell.publish(hint(1));
  await site.doorbell.idle();
  assert.deepEqual(site.connection.problems(), ['Redis is full: raise maxmemory, or delete keys']);
  await redis.call('CONFIG', 'SET', 'maxmemory', '0');
  await sweepUntil(site, [hints([hint(1)])], async () => (await tokensIn(redis)).length === 1);
});

test('junk that fills the server is removed, though there is no room for a note of it', async (t) => {
  const redis = await testRedis(t);
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  await redis.call('XADD', 'stream:orchestrator:inference_jobs', '*', 'junk', '1');
  await redis.call('CONFIG', 'SET', 'maxmemory', '1mb');
  const length = () => redis.call('XLEN', 'stream:orchestrator:inference_jobs');
  await sweepUntil(site, [hints([])], async () => (await length()) === 0);
});

test('rights that the user lacks are named; a user with the rights of the documentation has no problem', async (t) => {
  const redis = await testRedis(t);
  const acl = (...rules: string[]) => redis.call('ACL', 'SETUSER', 'brain', 'reset', 'on', '>pw', ...rules);
  const commands = ['info', 'multi', 'exec', 'discard', 'xadd', 'xlen', 'xdel', 'xrange', 'xack'].concat([
    'xgroup',
    'xautoclaim',
    'xpending',
    'xinfo',
    'xreadgroup',
  ]);
  const rights = commands.map((name) => `+${name}`);
  await acl('~stream:orchestrator:*', ...rights);
  const settings = { url: redis.url, username: 'brain', password: 'pw' };
  const site = await doorbellOn(t, settings);
  await isUp(site.connection);
  site.doorbell.publish(hint(1));
  site.doorbell.sweep([hints([hint(1)])]);
  await site.doorbell.idle();
  assert.deepEqual([site.connection.problems(), await tokensIn(redis)], [[], ['job-1:1']]);
  await acl('~stream:orchestrator:inference_jobs*', ...rights, '-xautoclaim');
  const { problems, lines } = await problemsAt(t, settings);
  assert.match(problems.join(), /XADD on stream:orchestrator:dlq/);
  assert.match(problems.join(), /XAUTOCLAIM on stream:orchestrator:inference_jobs/);
  assert.ok(!lines.join().includes('pw'));
});

test('a wrong password is said, and is in no log', async (t) => {
  const redis = await testRedis(t, { args: ['--requirepass', 'right'] });
  const url = `redis://:wr0ng-secret@127.0.0.1:${redis.port}`;
  const { problems, lines } = await problemsAt(t, { url });
  assert.deepEqual(problems, ['Redis refuses the user or the password']);
  assert.ok(lines.length > 0 && !lines.join().includes('wr0ng-secret'));
  const right = await problemsAt(t, { url: redis.url, password: 'right' });
  assert.deepEqual(right.problems, []);
});

test('a version before 7.0 is said to be too old', async () => {
  const info = 'redis_version:6.2.14\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n';
  const pipeline = async (commands: readonly unknown[]): Promise<Reply[]> =>
    commands.map((_, at) => (at === 0 ? info : 'OK'));
  const [problem, ...more] = await problemsOf(pipeline);
  assert.deepEqual([problem?.text, more], ['Redis 6.2.14 is too old: it must be 7.0 or newer', []]);
});

test('a server that is away when the brain starts delays it not, and is used when it comes', async (t) => {
  const redis = await testRedis(t);
  await redis.kill();
  const { connection, lines } = await problemsAt(t, { url: redis.url });
  assert.deepEqual(connection.problems(), ['Redis does not answer (ECONNREFUSED)']);
  await redis.start();
  await isUp(connection);
  assert.deepEqual(connection.problems(), []);
  assert.equal(lines.length, 2, 'the absence is logged once, and the return');
});

test('a key of another type hurts its own stream only', async (t) => {
  const redis = await testRedis(t);
  await redis.call('SET', 'stream:orchestrator:inference_jobs', 'text');
  const site = await doorbellOn(t, { url: redis.url });
  await isUp(site.connection);
  const pools = [hints([hint(1)]), hints([hint(2, 'other')], [], 'other')];
  await sweepUntil(site, pools, async () => (await tokensIn(redis, 'other')).length === 1);
  assert.match(site.connection.problems().join(), /should be a stream/);
});

test('TLS: a server whose certificate ca_file has signed is used, and no other', async (t) => {
  const { cert, key } = certificate(t);
  const tls = [
    '--tls-cert-file',
    cert,
    '--tls-key-file',
    key,
    '--tls-ca-cert-file',
    cert,
    '--tls-auth-clients',
    'no',
  ];
  const port = await freePort();
  await testRedis(t, { args: ['--tls-port', String(port), ...tls] });
  const url = `rediss://localhost:${port}`;
  const trusted = await problemsAt(t, { url, tls: { ca_file: cert } });
  assert.deepEqual(trusted.problems, []);
  const refused = await problemsAt(t, { url });
  assert.match(refused.problems.join(), /SELF_SIGNED/);
  await assert.rejects(connected(t, { url, tls: { ca_file: `${cert}.gone` } }), /ca_file names no file/);
});

/** A certificate for localhost that signs itself. */
function certificate(t: TestContext): { readonly cert: string; readonly key: string } {
  const folder = mkdtempSync(join(tmpdir(), 'orchd-redis-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const request = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
  ];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  execFileSync('openssl', [...request, ...names, '-keyout', key, '-out', cert], { stdio: 'ignore' });
  return { cert, key };
}

async function sentinelSite(
  t: TestContext,
): Promise<{ master: OwnRedis; replica: OwnRedis; sentinel: OwnRedis }> {
  const master = await testRedis(t);
  const args = ['--replicaof', '127.0.0.1', String(master.port), '--repl-diskless-sync-delay', '0'];
  const replica = await testRedis(t, { args });
  await until(async () => /master_link_status:up/.test(String(await replica.call('INFO', 'replication'))));
  const sentinel = await ownSentinel(master);
  t.after(() => sentinel.stop());
  await until(async () => /slaves=1/.test(String(await sentinel.call('INFO', 'sentinel'))));
  return { master, replica, sentinel };
}

test('sentinels: after a failover to a replica without the tail, what waits is there again', async (t) => {
  const { master, replica, sentinel } = await sentinelSite(t);
  const hosts = `127.0.0.1:1,127.0.0.1:${sentinel.port}`;
  const site = await doorbellOn(t, { sentinels: { name: 'orchd', hosts } });
  await isUp(site.connection);
  site.doorbell.publish(hint(1));
  await site.doorbell.idle();
  await until(async () => (await tokensIn(replica)).length === 1);
  // From here on the replica hears nothing.
  await master.call('CONFIG', 'SET', 'repl-ping-replica-period', '3600');
  replica.pause();
  site.doorbell.publish(hint(2));
  await site.doorbell.idle();
  assert.deepEqual(await tokensIn(master), ['job-1:1', 'job-2:1']);
  await master.kill();
  replica.resume();
  // Sentinel disconnects all clients of a server that it makes the master.
  const role = (): Promise<string> => replica.call('INFO', 'replication').then(String, () => '');
  await until(async () => /role:master/.test(await role()));
  const pools = [hints([hint(1), hint(2)])];
  await sweepUntil(site, pools, async () => (await tokensIn(replica)).includes('job-2:1'));
  assert.deepEqual((await readAs(replica, 'c1')).sort(), ['job-1:1', 'job-2:1']);
});
