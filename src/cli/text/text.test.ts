/** What people read: durations, tables, jobs in words. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { fakeTerminal } from '../../../test/fakes/terminal.ts';
import { createLogger } from '../../kit/logger.ts';
import type { JobView } from '../../model/http/jobs.ts';
import { cancelText } from '../commands/cancel.ts';
import { jobTable } from '../commands/jobs.ts';
import { submittedText } from '../commands/submit.ts';
import { eventText } from '../commands/tail.ts';
import { endText, resetText } from '../follow.ts';
import { fitting } from '../terminal.ts';
import { durationText, instantText } from './duration.ts';
import { jobText } from './job-page.ts';
import { explainText, placeText, resultText, whereText } from './job-text.ts';
import { logText } from './log-text.ts';
import { progressText } from './progress.ts';
import { forTerminal, harmless, harmlessJson, oneLine, paint, paintState } from './screen.ts';
import { tableText } from './table.ts';

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const { terminal: plain } = fakeTerminal();
const { terminal: person } = fakeTerminal({ isTTY: true });

const job = (more: Partial<JobView> = {}): JobView => ({
  job_id: 'j1',
  state: 'queued',
  type: 'inference',
  priority: 'batch',
  agent: 'ada',
  score: 0,
  created_at: NOW - 90_000,
  tries: 0,
  max_tries: 3,
  attempts: [],
  payload_bytes: 9,
  ...more,
});

const running = job({
  state: 'running',
  started_at: NOW - 5000,
  tries: 1,
  attempts: [{ attempt: 1, backend: 'gpu', state: 'accepted', intended_at: NOW - 5000 }],
});

test('a run that has failed is shown as such, in the list and by itself; one that has answered as any job', () => {
  const failed = job({ state: 'succeeded', type: 'agent', run_state: 'failed' });
  assert.match(jobTable([failed], plain, NOW), /j1 +succeeded \(run failed\) +agent/);
  assert.match(jobText(failed, plain, NOW), /^state +succeeded \(run failed\)$/m);
  const red = paintState('failed', 'succeeded (run failed)', person);
  assert.ok(jobTable([failed], person, NOW).includes(red));
  const done = job({ state: 'succeeded', type: 'agent', run_state: 'completed' });
  assert.match(jobText(done, plain, NOW), /^state +succeeded$/m);
});

test('a dead call of a run is not said to be redriven', () => {
  const dead = (more: Partial<JobView>) => jobText(job({ state: 'dead', ...more }), plain, NOW);
  assert.match(dead({}), /orchd redrive j1/);
  for (const more of [{ type: 'tool' }, { type: 'approval' }, { tags: { model_role: 'primary' } }])
    assert.doesNotMatch(dead(more), /redrive/);
});

test('durations have one unit, in which they are at least 2 from minutes on; instants are in UTC', () => {
  const cases: [number, string][] = [
    [-5, '0 ms'],
    [999, '999 ms'],
    [1000, '1.0 s'],
    [9999, '9.9 s'],
    [10_000, '10 s'],
    [119_999, '119 s'],
    [120_000, '2 min'],
    [7_199_999, '119 min'],
    [7_200_000, '2 h'],
    [172_800_000, '2 d'],
  ];
  for (const [ms, text] of cases) assert.equal(durationText(ms), text);
  assert.equal(instantText(NOW), '2026-01-02 03:04:05.000 UTC');
});

test('control characters in text of jobs and backends are made visible', () => {
  assert.equal(harmless('a\u001b[2Jb\u0007c\u009bd\r\ne\tf'), 'a␛[2Jb␇c\u{fffd}d\ne\tf');
  assert.equal(oneLine('  two\n\n lines\u001b '), 'two lines␛');
});

test('characters that turn text around or do not show are made visible; languages and emoji keep what they need', () => {
  assert.equal(harmless('a\u202eb\u2066c\u200ed\u061ce'), 'a<U+202E>b<U+2066>c<U+200E>d<U+061C>e');
  assert.equal(harmless('\u00ad\ufeff\u2028\u3164\u{e0041}'), '<U+00AD><U+FEFF><U+2028><U+3164><U+E0041>');
  const kept = 'naïve \u{1f469}\u200d\u{1f4bb} ❤\ufe0f نمی\u200cخواهم 日本';
  assert.equal(harmless(kept), kept);
});

test('a line of JSON is escaped to the same value', () => {
  const value = { text: 'a\u001b\u009b\u202e\u{e0041}\u200d ü\n' };
  const line = `${JSON.stringify(value)}\n`;
  assert.equal(harmlessJson(line), '{"text":"a\\u001b\\u009b\\u202e\\udb40\\udc41\u200d ü\\n"}\n');
  assert.deepEqual(JSON.parse(harmlessJson(line)), value);
});

test('only colours of our own pass the terminal port, in whatever form text imitates them', () => {
  const painted = paint('red', 'a', person);
  assert.equal(forTerminal(painted), '\u001b[31ma\u001b[39m');
  assert.equal(paint('red', 'a', plain), 'a');
  for (const imitation of ['\u001b[31m', '\u001b[31;1000;1000;1000;1000m', '\u009b31m'])
    assert.doesNotMatch(forTerminal(imitation), /\p{Cc}/u);
});

describe('tables', () => {
  const rows = [
    ['a', 'short'],
    ['bb', 'rather long text'],
  ];

  test('are aligned, and cut in the last column only where there is a width', () => {
    assert.equal(tableText(['ID', 'TEXT'], rows), 'ID  TEXT\na   short\nbb  rather long text');
    assert.equal(tableText(['ID', 'TEXT'], rows, { width: 15 }).split('\n')[2], 'bb  rather lon…');
    assert.equal(
      tableText(['ID', 'TEXT'], rows, { width: 1 }).split('\n')[2],
      'bb  rather lo…',
      'some of it stays',
    );
  });

  test('colours do not move the columns', () => {
    const list = [running, job()];
    const coloured = jobTable(list, person, NOW);
    assert.notEqual(coloured, jobTable(list, plain, NOW));
    assert.equal(stripVTControlCharacters(coloured), jobTable(list, plain, NOW));
    assert.equal(paintState('of a newer server' as never, 'text', person), 'text');
  });
});

describe('a job in words', () => {
  test('its position in the queue and its predicted start', () => {
    assert.equal(
      placeText({ queue_position: 2, predicted_start_ms: 12_000 }),
      '2 jobs go first, starts in about 12 s',
    );
    assert.equal(placeText({ queue_position: 0, predicted_start_ms: -3 }), 'next, starts at once');
    assert.equal(placeText({}), '');
  });

  test('where it is or why it waits', () => {
    const waiting = { code: 'behind', text: 'about 4 jobs go before it' } as const;
    assert.equal(
      whereText(job({ waiting, queue_position: 4, predicted_start_ms: 3000 })),
      'about 4 jobs go before it; starts in about 3.0 s',
    );
    assert.equal(whereText(running), 'gpu');
    const error = { code: 'EXECUTION_FAILED', message: 'no\nway', retriable: false } as const;
    assert.equal(whereText(job({ state: 'dead', reason: 'failed', error })), 'EXECUTION_FAILED: no way');
    assert.equal(whereText(job({ state: 'cancelled' })), '');
    assert.equal(whereText({ ...running, state: 'succeeded', ended_at: NOW }), 'gpu, took 5.0 s');
  });

  test('why it waits, as a sentence', () => {
    const waiting = { code: 'backend_busy', text: 'next; the backend that can run it is busy' } as const;
    assert.equal(
      explainText(job({ waiting, predicted_start_ms: 2000 }), NOW),
      'j1 waits: next; the backend that can run it is busy; it starts in about 2.0 s.',
    );
    const until = job({ waiting: { code: 'not_before', text: 'waits until noon' } });
    assert.equal(explainText(until, NOW), 'j1 waits until noon.');
    assert.match(jobText(until, plain, NOW), /^waits +until noon$/m);
    assert.equal(explainText(running, NOW), 'j1 does not wait: it is running on "gpu" for 5.0 s.');
    assert.equal(
      explainText(job({ state: 'dead', ended_at: NOW - 1000 }), NOW),
      'j1 does not wait: it has ended (dead), 1.0 s ago.',
    );
  });

  test('its progress, in one line that fits the terminal', () => {
    const waiting = { code: 'behind', text: 'about 4 jobs go before it' } as const;
    assert.equal(
      progressText(job({ waiting, queue_position: 4, predicted_start_ms: 2000 }), NOW),
      'queued, about 4 jobs go before it, starts in about 2.0 s',
    );
    assert.equal(progressText(running, NOW), 'running on gpu for 5.0 s');
    assert.equal(fitting('abcdef', 5), 'abc…');
    assert.equal(fitting('abcd', 5), 'abcd');
    assert.equal(fitting('x'.repeat(100), 0).length, 79);
  });

  test('everything about it', () => {
    const error = { code: 'FROM_THE_FUTURE' as never, message: 'odd', retriable: false, reason: 'new' };
    const attempt = {
      attempt: 1,
      backend: 'gpu',
      state: 'ended' as const,
      outcome: 'failed',
      intended_at: NOW - 9000,
      ended_at: NOW,
      error,
    };
    const text = jobText(
      job({ state: 'dead', reason: 'failed', error, attempts: [attempt], key: 'k', score: 2 }),
      plain,
      NOW,
    );
    assert.match(text, /^job {7}j1$/m);
    assert.match(text, /^score {5}2$/m);
    assert.match(text, /^state {5}dead \(failed\)$/m);
    assert.match(text, /^created {3}2026-01-02 03:02:35\.000 UTC, 90 s ago$/m);
    assert.match(text, /^ {2}1 {2}gpu {2}failed, 9\.0 s: odd \(FROM_THE_FUTURE, new\)$/m);
    assert.match(text, /^error {2}odd \(FROM_THE_FUTURE, new\)$/m);
    assert.doesNotMatch(text, /undefined|model|session/);
    assert.match(
      jobText({ ...running, cancel_requested: true }, plain, NOW),
      /^state {5}running, cancel requested$/m,
    );
  });

  test('what was asked, and the tokens', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 40 };
    const asked = jobText(job({ payload: { prompt: 'hi\u001b[2J' }, usage }), plain, NOW);
    assert.match(asked, /^tokens {3} 3 in, 40 out$/m);
    assert.match(asked, /^payload\nhi␛\[2J$/m);
    assert.match(jobText(job({ payload: { a: 1, prompt: 'p' } }), plain, NOW), /^payload\n\{\n {2}"a": 1,/m);
    assert.match(
      jobText(job({ payload_bytes: 5000 }), plain, NOW),
      /^payload\n\(5000 bytes: orchd show j1 --payload prints it\)$/m,
    );
    const gone = /^payload\n\(\d+ bytes: nobody can read it any more\)$/m;
    assert.match(jobText(job({ payload_bytes: 5000 }), plain, NOW, { withPayload: true }), gone);
    assert.match(jobText(job({ payload_bytes: 32 }), plain, NOW), gone);
  });

  test('its submit, its cancel, its events and its end', () => {
    const task = { job_id: 'j1', status: 'queued', queue_position: 0, events_url: '/' } as const;
    assert.equal(submittedText(task), 'j1  queued, next');
    assert.equal(
      submittedText({ ...task, duplicate_of: 'key' }),
      'j1  queued, next, already submitted (same key)',
    );
    assert.match(cancelText({ ...running, cancel_requested: true }), /being cancelled/);
    assert.equal(
      eventText({ id: '1.2', event: 'token', data: { t: 'a\n', i: 0 } }),
      '1.2     token    "a\\n"',
    );
    assert.equal(
      eventText({ id: undefined, event: 'reset', data: { attempt: 2 } }),
      '-       reset    {"attempt":2}',
    );
    assert.equal(endText({ job_id: 'j1', state: 'dead' }), 'orchd: job j1 failed.');
    const unknown = { code: 'UNKNOWN_OUTCOME', message: 'gone', retriable: false } as const;
    assert.match(endText({ job_id: 'j1', state: 'dead', ...unknown }), /redrive/);
    const shown = jobText(job({ state: 'dead', error: unknown }), plain, NOW);
    assert.match(shown, /redrive/);
    assert.doesNotMatch(shown, /resolve/, 'the job has ended');
    assert.equal(
      endText({ job_id: 'j1', state: 'queued' }),
      'orchd: job j1 is queued again; follow it without --after.',
    );
  });

  test('a new attempt, and why it was needed', () => {
    const error = { code: 'EXECUTION_FAILED', message: 'no\nluck', retriable: true } as const;
    const first = { attempt: 1, backend: 'b', intended_at: 0 } as const;
    const failed = [{ ...first, state: 'ended', outcome: 'failed', error }] as const;
    assert.equal(resetText(2, 1, failed, false), 'orchd: attempt 1 failed (no luck); a new attempt begins');
    const lost = [{ ...first, state: 'abandoned' }] as const;
    assert.equal(
      resetText(2, undefined, lost, true),
      'orchd: attempt 1 was lost; a new attempt begins; discard the text above',
    );
    assert.match(resetText(2, 1, [], false), /^orchd: attempt 1 has ended without an answer; a new/);
    assert.match(resetText(1, 1, [], true), /a part of the answer was lost on the way; discard/);
    const shown = jobText(job({ state: 'dead', error }), plain, NOW);
    assert.doesNotMatch(shown, /Correct the job/, 'it may succeed unchanged');
    assert.match(shown, /redrive/);
  });

  test('its result is its text where it has one', () => {
    assert.equal(resultText('a'), 'a');
    assert.equal(resultText({ text: 'b', exit_code: 0 }), 'b');
    assert.equal(resultText([1]), '[\n  1\n]');
    assert.equal(resultText(false), 'false');
    assert.equal(resultText(null), '');
  });
});

test('a line of the log for a person: the time, what is not as usual, what happened, its fields', () => {
  let text = '';
  const write = (line: string): void => {
    text = logText(line);
  };
  const logger = createLogger({ write, now: () => new Date(2026, 0, 2, 3, 4, 5).getTime() });
  logger.info('orchd is up');
  assert.equal(text, '03:04:05 orchd is up\n');
  logger.child({ job_id: 'j1' }).warn('It moved.', {
    count: 0,
    correlation_id: 'c',
    backend: 'b',
    worker_id: 'b',
    event: { to: 'dead' },
  });
  assert.equal(text, '03:04:05 warn It moved. (job_id j1, count 0, backend b)\n');
  const moved = (to: string, more: object = {}): string => {
    const event = { type: 'state_transition', from: 'queued', to };
    logger.info('A sentence.', { job_id: 'j1', correlation_id: 'c.2', backend: 'gpu/w-5', event, ...more });
    return text.slice('03:04:05 '.length, -1);
  };
  assert.equal(moved('claimed', { reason: 'claim:only-class' }), 'j1 claimed by gpu/w-5 (attempt 2)');
  assert.equal(moved('running'), 'j1 running on gpu/w-5');
  assert.equal(moved('succeeded', { execution_latency_ms: 1500 }), 'j1 succeeded on gpu/w-5 after 1.5 s');
  assert.equal(moved('dead', { error_code: 'TIMEOUT' }), 'j1 dead on gpu/w-5: TIMEOUT');
  assert.equal(moved('queued', { reason: 'retry', queue_position: 3 }), 'j1 queued again: retry (3 ahead)');
  assert.equal(moved('stale'), 'j1 outcome unknown on gpu/w-5');
  const admission = { type: 'admission', to: 'queued' };
  logger.info('The job was admitted.', { job_id: 'j1', queue_position: 0, event: admission });
  assert.equal(text, '03:04:05 j1 admitted\n');
  logger.error('refused', { reason: 'a\nb \u001b[2J', prompt: 'hunter2' } as object);
  assert.equal(text, '03:04:05 error refused (reason a b \u241b[2J)\n');
});
