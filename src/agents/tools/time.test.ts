import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import { callTool } from './call.ts';
import { ToolSet } from './registry.ts';
import { currentTimeTool } from './time.ts';

const clock = { now: () => Date.UTC(2026, 2, 29, 0, 59, 59, 7), monotonic: () => 0 };
const { tool, check } = new ToolSet([currentTimeTool(clock)]).get('current_time')!;

async function ask(args: string): Promise<string> {
  const checked = check(args);
  if (!checked.ok) return checked.message;
  const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
  return (await callTool(tool, checked.args, context, realEnv())).text;
}

test('the time is told in UTC, and in the zone that was asked for', async () => {
  assert.deepEqual(JSON.parse(await ask('')), {
    utc: '2026-03-29T00:59:59.007Z',
    time_zone: 'UTC',
    local: '2026-03-29T00:59:59+00:00',
    weekday: 'Sunday',
  });
  const berlin = JSON.parse(await ask('{"time_zone": "Europe/Berlin"}'));
  assert.equal(berlin.local, '2026-03-29T01:59:59+01:00');
  const honolulu = JSON.parse(await ask('{"time_zone": "Pacific/Honolulu"}'));
  assert.deepEqual([honolulu.local, honolulu.weekday], ['2026-03-28T14:59:59-10:00', 'Saturday']);
});

test('a zone that does not exist is refused by its name', async () => {
  for (const zone of ['Mars/Olympus', '+02:00', '', 'Europe/Berlin[u-ca=hebrew]', '../etc/localtime'])
    assert.match(await ask(JSON.stringify({ time_zone: zone })), /^there is no time zone "/, zone);
  assert.match(await ask(JSON.stringify({ time_zone: 'x'.repeat(65) })), /^"time_zone" must/);
  assert.match(await ask('{"timezone": "UTC"}'), /did you mean "time_zone"\?/);
});
