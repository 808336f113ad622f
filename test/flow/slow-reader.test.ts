/** Readers that do not read, beside many that do, on one job that says a lot. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { OrchdClient } from '../../src/client/client.ts';
import { readEvents, type SseEvent } from '../../src/wire/sse.ts';
import { until } from './cli-process.ts';
import { type ServerProcess, serve, Talker, testFolder } from './server-process.ts';

const LINES = 15_000;
const LINE_BYTES = 1000;
const LIVE = 100;
const PAUSED = 20;
/**
 * A heap that garbage cannot fill either. A copy of what the job says for each paused reader is five times as
 * much, a copy of its result for each live one twice.
 */
const SMALL = { NODE_OPTIONS: '--max-old-space-size=64 --max-semi-space-size=4' };
const MAX_GROWTH_BYTES = 100 * 2 ** 20;

const lineOf = (at: number): string => `${at} `.padEnd(LINE_BYTES - 1, 'x').concat('\n');

async function open(url: string, after?: string): Promise<IncomingMessage> {
  const request = get(url, {
    agent: false,
    ...(after !== undefined && { headers: { 'last-event-id': after } }),
  });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  assert.equal(response.statusCode, 200);
  return response;
}

/** All that came, as one number: a whole copy for each reader would fill the memory of the test instead. */
async function digest(response: IncomingMessage): Promise<string> {
  const hash = createHash('sha1');
  for await (const chunk of response) hash.update(chunk);
  return hash.digest('hex');
}

async function eventsOf(response: IncomingMessage): Promise<SseEvent[]> {
  const events: SseEvent[] = [];
  for await (const event of readEvents(response)) events.push(event);
  return events;
}

/** The tokens are those from this one to the last, in order and whole, and the end follows. */
function assertRest(events: readonly SseEvent[], from: number): void {
  const tokens = events.filter(({ event }) => event === 'token').map(({ data }) => JSON.parse(data));
  assert.equal(tokens.length, LINES - from);
  tokens.forEach(({ i, t }, at) => {
    assert.equal(i, from + at);
    assert.equal(t, lineOf(i));
  });
  assert.equal(events.at(-1)?.event, 'end');
  assert.ok(events.every(({ event }) => event !== 'reset'));
}

const peakBytes = ({ child }: ServerProcess): number =>
  Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) * 1024;

async function talkingBrain(t: TestContext): Promise<{ brain: ServerProcess; talker: Talker; url: string }> {
  const talker = new Talker();
  await talker.listen(t);
  const types = { talk: { argv: talker.argv } };
  const config = {
    // No signs of life between the events: all readers get the same bytes.
    server: { heartbeat_ms: 3_600_000 },
    backends: { demo: false, commands: [{ name: 'talker', types }] },
  };
  const brain = await serve(t, { data: join(testFolder(t), 'data'), config, env: SMALL });
  const client = new OrchdClient({ url: brain.url });
  await client.submit({ job_id: 'much', type: 'talk' });
  await until(async () => (await client.get('much')).state === 'running');
  return { brain, talker, url: `${brain.url}/v2/tasks/much/events` };
}

test('readers that do not read cost nothing and delay nobody, and get the rest when they read on or come back', {
  timeout: 240_000,
}, async (t) => {
  const { brain, talker, url } = await talkingBrain(t);
  const paused = await Promise.all(Array.from({ length: PAUSED }, () => open(url)));
  t.after(() => paused.forEach((response) => void response.destroy()));
  const live = await Promise.all(Array.from({ length: LIVE }, () => open(url)));
  const before = peakBytes(brain);
  const digests = Promise.all(live.map(digest));
  const reading = open(url).then(eventsOf);
  for (let at = 0; at < LINES; at += 100)
    await talker.say(Array.from({ length: 100 }, (_, more) => lineOf(at + more)).join(''));
  await talker.end();

  assertRest(await reading, 0);
  assert.equal(new Set(await digests).size, 1, 'all others got the same to the last byte');
  assert.ok(paused.every((response) => !response.readableEnded && response.readableFlowing === null));
  const growth = peakBytes(brain) - before;
  t.diagnostic(`the server grew by ${Math.round(growth / 2 ** 20)} MiB at most`);
  assert.ok(growth < MAX_GROWTH_BYTES, `it grew by ${growth} bytes`);

  const [patient, impatient] = paused as [IncomingMessage, IncomingMessage];
  assertRest(await eventsOf(patient), 0);
  const had: SseEvent[] = [];
  for await (const event of readEvents(impatient)) if (had.push(event) === 500) break;
  const { id, data } = had.at(-1)!;
  assertRest(await eventsOf(await open(url, id)), JSON.parse(data).i + 1);
});
