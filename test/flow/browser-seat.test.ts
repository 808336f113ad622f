/** Seats whose provider is a chat page, in a real Chromium. */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { test } from 'node:test';
import { SELECTORS } from '../fakes/chat-page.ts';
import { BrowserSeat, chromiumPids } from './browser-seat-kit.ts';
import { until } from './cli-process.ts';
import type { WorkerEvent } from './worker-kit.ts';

process.env['ORCHD_GATEWAY_TOKEN'] = 'secret-of-callers';

const textOf = (events: readonly WorkerEvent[]): string =>
  events
    .filter(({ event }) => event === 'token')
    .map(({ data }) => data.t)
    .join('');

test('a conversation streams over two turns, and goes on at its URL after a restart of the gateway', async (t) => {
  const seat = await BrowserSeat.open(t);
  const { chat } = seat;
  chat.isNoisy = true;
  const first = await seat.ask({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'One?' },
    ],
  });
  await chat.sent(1);
  assert.deepEqual(chat.prompts, ['System: Be brief.\n\nUser: One?']);
  const [pid] = chromiumPids(seat.profile);
  assert.doesNotMatch(readFileSync(`/proc/${pid}/environ`, 'utf8'), /ORCHD/, 'Chromium gets no secrets');
  chat.step({ add: 'It is ' });
  assert.equal((await first.until('token')).data.t, 'It is', 'the text comes while the page still answers');
  chat.step({ add: 'one.' });
  chat.step({ end: true });
  const end = (await first.until('end')).data.result;
  const thread = `${chat.origin}/c/0`;
  assert.deepEqual(end, { text: 'It is one.', finish_reason: 'stop', thread_id: thread });

  const conversation = {
    messages: [
      { role: 'user', content: 'One?' },
      { role: 'assistant', content: 'It is one.' },
      { role: 'user', content: 'Two?' },
    ],
  };
  const second = await seat.askAndAnswer(conversation, 'It is two.', { thread_id: thread });
  assert.equal(textOf(second), 'It is two.');
  assert.equal(second.at(-1)?.data.result.thread_id, thread);

  await seat.stop();
  await seat.start();
  const third = await seat.askAndAnswer({ prompt: 'Three?', thread_id: thread }, 'It is three.');
  assert.deepEqual(third.at(-1)?.data.result, { ...end, text: 'It is three.' });
  assert.deepEqual(chat.prompts.slice(1), ['Two?', 'Three?'], 'the page has the rest of the conversation');
  assert.equal(statSync(seat.profile).mode & 0o077, 0, 'the profile is private');
  assert.doesNotMatch(seat.log, /One\?|It is|\/c\/0/);
});

test('an answer goes on over a reload, also one that changes its seat, and so does its conversation', async (t) => {
  const seat = await BrowserSeat.open(t);
  const { chat } = seat;
  const first = await seat.ask('One?');
  await chat.sent(1);
  chat.step({ add: 'It is ' });
  await first.until('token');
  seat.follow();
  seat.follow({ settle_ms: 250 });
  chat.step({ add: 'one.' });
  chat.step({ end: true });
  const { text, thread_id } = (await first.until('end')).data.result;
  assert.equal(text, 'It is one.');
  const second = await seat.askAndAnswer({ prompt: 'Two?', thread_id }, 'It is two.');
  assert.equal(second.at(-1)?.data.result.text, 'It is two.');
  assert.equal(second.at(-1)?.data.result.thread_id, thread_id);
  assert.deepEqual(chat.prompts, ['One?', 'Two?']);
});

test('text that the page rewrites is never part of the result', async (t) => {
  const seat = await BrowserSeat.open(t);
  const { chat } = seat;
  const stream = await seat.ask('Hello');
  await chat.sent(1);
  chat.step({ add: 'Wrong beginning' });
  assert.equal((await stream.until('token')).data.t, 'Wrong beginning');
  chat.step({ set: 'Right from the start' });
  chat.step({ end: true });
  const rest = await stream.rest();
  assert.equal(textOf(rest), '', 'nothing is appended to what is wrong');
  assert.equal(rest.at(-1)?.data.result.text, 'Right from the start');
});

test('a login form pauses the seat until somebody has logged in; a prompt that was sent is not sent again', async (t) => {
  const seat = await BrowserSeat.open(t);
  const { chat } = seat;
  chat.isLoggedIn = false;
  const early = (await (await seat.ask('Hello')).rest()).at(-1);
  assert.deepEqual([early?.data.turned_away, early?.data.reason], ['auth_required', 'auth_required']);
  const held = { busy: true, reason: 'auth_required', retry_after_ms: 60_000, high_priority_pending: false };
  assert.deepEqual(await seat.busy(), held);
  const refused = await seat.line.ask('POST', '/submit_immediate', {
    backend: 's',
    payload: 'Hello',
    idempotency_token: 'refused',
  });
  assert.deepEqual([refused.status, refused.body.error.reason], [503, 'auth_required']);
  await until(() => chromiumPids(seat.profile).length === 0);

  const left = new AbortController();
  assert.equal(await seat.logIn(left.signal, () => left.abort()), 'closed');
  assert.equal((await seat.busy()).reason, 'auth_required', 'the window was closed before the login');
  const login = seat.logIn(undefined, () => {
    chat.isLoggedIn = true;
  });
  assert.equal(await login, 'logged in');
  await until(async () => !(await seat.busy()).busy);

  const late = await seat.ask('Again');
  await chat.sent(1);
  await assert.rejects(seat.logIn(), { code: 'STORE_LOCKED', message: /a gateway uses the profile/ });
  chat.step({ add: 'Half' });
  await late.until('token');
  chat.step({ login: true });
  const lost = (await late.rest()).at(-1)?.data;
  assert.deepEqual([lost.code, lost.reason], ['UNKNOWN_OUTCOME', 'auth_required']);
  assert.equal((await seat.busy()).reason, 'auth_required');
  await seat.stop();
  await seat.start();
  await until(async () => (await seat.busy()).reason === 'auth_required');
  assert.deepEqual(chat.prompts, ['Again']);
});

test('a page whose selectors no longer match is reported with the selector and the page', async (t) => {
  const seat = await BrowserSeat.open(t, { load_timeout_ms: 4000 });
  const { chat } = seat;
  chat.prefix = 'v2-';
  const { code, message, retriable } = (await (await seat.ask('Hello')).rest()).at(-1)?.data ?? {};
  assert.deepEqual([code, retriable], ['WORKER_PROTOCOL', false]);
  assert.match(
    message,
    /"selectors\.input" \(#prompt\) matches nothing.*page http:\/\/127\.0\.0\.1:\d+\/new\)$/,
  );
  assert.deepEqual(chat.prompts, []);

  const elsewhere = { code: 'INVALID_PARAMS', message: /"thread_id" must be a URL of the page of this seat/ };
  for (const thread_id of ['http://127.0.0.1:1/c/0', 'file:///etc/passwd', 'https://user@example.com/'])
    assert.partialDeepStrictEqual(
      { ...(await (await seat.ask('Hello', { thread_id })).rest()).at(-1)?.data },
      { code: elsewhere.code, retriable: false },
    );
  const local = (await (await seat.ask({ prompt: 'Hello', thread_id: '/c/0' })).rest()).at(-1)?.data;
  assert.match(local.message, elsewhere.message);
});

test('a page that changes after the prompt was sent leaves its outcome unknown, and nothing else is taken for the answer', async (t) => {
  const seat = await BrowserSeat.open(t, { load_timeout_ms: 4000 });
  const { chat } = seat;
  const redirected = await seat.ask('Redirect');
  await chat.sent(1);
  chat.step({ add: 'Half of an answer' });
  await redirected.until('token');
  chat.step({ goto: `${chat.origin.replace('127.0.0.1', 'localhost')}/c/0` });
  const elsewhere = (await redirected.rest()).at(-1)?.data;
  assert.deepEqual([elsewhere.code, elsewhere.retriable], ['UNKNOWN_OUTCOME', false]);
  assert.match(elsewhere.message, /another origin than the seat \(page http:\/\/localhost/);

  seat.follow({ selectors: { ...SELECTORS, answer: '.reply' } });
  const unread = await seat.askAndAnswer('Answer', 'Nobody finds this.');
  const { code, retriable, message } = unread.at(-1)?.data ?? {};
  assert.deepEqual([code, retriable], ['UNKNOWN_OUTCOME', false]);
  assert.match(message, /"selectors.answer" \(\.reply\) matches nothing.*the prompt was sent$/);
  assert.deepEqual(chat.prompts, ['Redirect', 'Answer']);
});

test('a Chromium that dies is started again; only a prompt that was not sent may be tried again', async (t) => {
  const seat = await BrowserSeat.open(t);
  const { chat } = seat;
  chat.prefix = 'v2-';
  const unsent = await seat.ask('Hello');
  await until(() => chromiumPids(seat.profile).length > 0);
  await chat.opened(1);
  await seat.killChromium();
  const before = (await unsent.rest()).at(-1)?.data;
  assert.deepEqual([before.code, before.retriable], ['WORKER_UNAVAILABLE', true]);
  assert.deepEqual(chat.prompts, []);

  chat.prefix = '';
  const sent = await seat.ask('Hello');
  await chat.sent(1);
  await seat.killChromium();
  const after = (await sent.rest()).at(-1)?.data;
  assert.deepEqual([after.code, after.retriable], ['UNKNOWN_OUTCOME', false]);
  const next = await seat.askAndAnswer('Next', 'It lives.');
  assert.equal(next.at(-1)?.data.result.text, 'It lives.');
  assert.deepEqual(chat.prompts, ['Hello', 'Next']);
});

test('an answer that does not end, and an error that the page shows, end the request without another try', async (t) => {
  const seat = await BrowserSeat.open(t, { answer_timeout_ms: 3000 });
  const { chat } = seat;
  const failing = await seat.ask('Fail');
  await chat.sent(1);
  chat.step({ error: 'Something went wrong' });
  const failed = (await failing.rest()).at(-1)?.data;
  assert.deepEqual([failed.code, failed.retriable], ['EXECUTION_FAILED', false]);
  assert.match(failed.message, /Something went wrong/);

  const endless = await seat.ask('Endless');
  await chat.sent(2);
  chat.step({ add: 'and so on' });
  const late = (await endless.rest()).at(-1)?.data;
  assert.deepEqual([late.code, late.reason, late.retriable], ['WORKER_TIMEOUT', 'timeout', false]);
});

test('a page that blocks in mid-answer ends its own request only', async (t) => {
  const seat = await BrowserSeat.open(t, { answer_timeout_ms: 3000 });
  const { chat } = seat;
  const blocked = await seat.ask('Block');
  await chat.sent(1);
  chat.step({ spin: true });
  const late = (await blocked.rest()).at(-1)?.data;
  assert.deepEqual([late.code, late.retriable], ['WORKER_TIMEOUT', false]);
  const next = await seat.askAndAnswer('Next', 'It goes on.');
  assert.equal(next.at(-1)?.data.result.text, 'It goes on.');
});
