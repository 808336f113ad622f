import assert from 'node:assert/strict';
import os from 'node:os';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { callTool } from './call.ts';
import { type MachineHealthOptions, machineHealthTool } from './machine.ts';

async function ask(options: MachineHealthOptions): Promise<string> {
  const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
  const result = await callTool(machineHealthTool(options), {}, context, realEnv());
  assert.ok(result.ok, result.text);
  return result.text;
}

test('load, cores, memory, uptime and free space are numbers', async () => {
  const told = JSON.parse(await ask({ disk: realEnv().disk, folders: { data: os.tmpdir() } }));
  assert.deepEqual(Object.keys(told), ['load', 'cores', 'memory', 'uptime_seconds', 'disk_free_bytes']);
  assert.equal(told.memory.total_bytes, os.totalmem());
  for (const value of [told.cores, told.memory.free_bytes, told.uptime_seconds, told.disk_free_bytes.data])
    assert.ok(Number.isFinite(value) && value > 0);
  for (const value of Object.values(told.load)) assert.ok(Number.isFinite(value));
});

test('a folder that cannot be measured fails nothing else, and no path is told', async () => {
  const folders = { data: '/a/private/place', spare: '/b' };
  const space = async (path: string) => {
    if (path === '/b') throw new Error(`ENOENT: ${path}`);
    return { freeBytes: 7 };
  };
  const text = await ask({ disk: { space }, folders });
  assert.deepEqual(JSON.parse(text).disk_free_bytes, { data: 7, spare: null });
  assert.doesNotMatch(text, /private/);
  assert.deepEqual(JSON.parse(await ask({ disk: {}, folders })).disk_free_bytes, { data: null, spare: null });
});

test('the machine, its user and its environment are not named', async () => {
  process.env['ORCHD_TOOL_TEST'] = 'a-value-of-the-environment';
  const text = await ask({ disk: realEnv().disk, folders: { data: os.tmpdir() } });
  delete process.env['ORCHD_TOOL_TEST'];
  for (const secret of [os.hostname(), os.userInfo().username, os.homedir(), 'a-value-of-the-environment'])
    assert.ok(secret.length < 3 || !text.includes(secret), secret);
});
