import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatEvent, readEvents, type SseEvent, SseReader } from './sse.ts';

function read(pieces: readonly string[], maxEventChars?: number): SseEvent[] {
  const events: SseEvent[] = [];
  const reader = new SseReader((event) => events.push(event), maxEventChars);
  for (const piece of pieces) reader.push(piece);
  return events;
}

const STREAM = [
  ': a comment\r\n',
  'id: 1.1\nevent: token\ndata: {"t":"a"}\n\n',
  'data: one\rdata:two\rdata\r\r',
  'event: nothing\r\n\r\n',
  'id: 1.2\r\nevent: token\r\ndata: snow ☃ and 🦊\r\n\r\n',
  'retry: 5\ndata:  spaced\n\n',
  'data: never ended',
].join('');

const EVENTS: SseEvent[] = [
  { id: '1.1', event: 'token', data: '{"t":"a"}' },
  { event: 'message', data: 'one\ntwo\n' },
  { id: '1.2', event: 'token', data: 'snow ☃ and 🦊' },
  { event: 'message', data: ' spaced' },
];

test('a stream gives the same events however it is cut into pieces', () => {
  assert.deepEqual(read([STREAM]), EVENTS);
  for (let size = 1; size < STREAM.length; size++) {
    const pieces: string[] = [];
    for (let at = 0; at < STREAM.length; at += size) pieces.push(STREAM.slice(at, at + size), '');
    assert.deepEqual(read(pieces), EVENTS, `pieces of ${size}`);
  }
});

test('a stream that arrives byte by byte gives the same events, with characters of several bytes whole', async () => {
  const bytes = Buffer.from(STREAM);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at++) yield bytes.subarray(at, at + 1);
  }
  const events: SseEvent[] = [];
  for await (const event of readEvents(chunks())) events.push(event);
  assert.deepEqual(events, EVENTS);
});

test('events that formatEvent writes are read back unchanged', () => {
  const events = [
    { id: '3.14', event: 'token', data: '{"t":"x"}' },
    { event: 'queued', data: '{}' },
  ];
  assert.deepEqual(read([events.map(formatEvent).join('')]), events);
});

test('an event of 8 MiB that arrives in pieces of 1 KiB is read at full length', () => {
  const data = 'x'.repeat(8 * 2 ** 20);
  const pieces: string[] = ['data: '];
  for (let at = 0; at < data.length; at += 1024) pieces.push(data.slice(at, at + 1024));
  const [event] = read([...pieces, '\n\n']);
  assert.equal(event?.data.length, data.length);
});

test('an event over the limit is refused, in one line or in many; the limit holds for each event alone', () => {
  const lines = Array.from({ length: 100 }, () => 'data: 0123456789\n');
  assert.throws(() => read(lines, 500), { code: 'WORKER_PROTOCOL' });
  assert.throws(() => read(['data: ', ...lines.map(() => '0123456789')], 500), { code: 'WORKER_PROTOCOL' });
  const whole = lines.map((line) => `${line}\n`);
  assert.equal(read(whole, 500).length, 100, 'the limit holds for each event, not for all of them');
});
