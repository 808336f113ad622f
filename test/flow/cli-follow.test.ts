/** Following a job from the command line: what goes where, how it ends, and what Ctrl-C does. */
import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, test } from 'node:test';
import {
  type CliBrain,
  cliBrain,
  jsonLines,
  linesOf,
  orchd,
  type Ran,
  type Running,
  start,
  until,
} from './cli-process.ts';

let brain: CliBrain;
const brains: CliBrain[] = [];

beforeEach(async () => {
  brain = await cliBrain();
  brains.push(brain);
});
afterEach(() => brain.gate.open());
after(() => Promise.all(brains.map((each) => each.stop())));

const env = (): { env: { ORCHD_URL: string } } => ({ env: { ORCHD_URL: brain.url } });
const here = (...words: string[]): Promise<Ran> => orchd(words, env());
const starting = (...words: string[]): Running => start(words, env());
const stateOf = async (id: string): Promise<string> => (await brain.orchestrator.get(id)).state;

test('the text goes to standard output and nothing else does', async () => {
  const { code, out, err } = await here('submit', '--follow', 'one two three', '--job-id', 'text');
  assert.deepEqual([code, out], [0, 'one two three\n']);
  assert.match(err, /^job text {2}\w+/);
});

test('a backend that does not stream gives its result', async () => {
  const [text, value] = await Promise.all([
    here('submit', '--follow', '--type', 'quiet'),
    here('submit', '--follow', '--type', 'double', '--payload', '{"n": 4}'),
  ]);
  assert.deepEqual([text.out, value.out], ['a result\n', '8\n']);
});

test('words come while the job runs', async () => {
  const running = starting('submit', '--follow', '--type', 'held');
  await running.saw('out', /^first $/);
  brain.gate.open();
  const { code, out } = await running.ended;
  assert.deepEqual([code, out], [0, 'first last\n']);
});

test('a job that fails is exit 1, with its error and what to do on standard error', async () => {
  const { code, out, err } = await here('submit', '--follow', '--type', 'fail', '--job-id', 'bad');
  assert.deepEqual([code, out], [1, '']);
  assert.match(err, /orchd: job bad failed: the model said ␛\[31mno \(EXECUTION_FAILED\)\nCorrect the job/);
});

test('a try that failed is named with its error; text is to be discarded only if there was some', async () => {
  const silent = await here('submit', '--follow', '--type', 'flaky');
  const running = starting('submit', '--follow', '--type', 'flaky', '--payload', '"half an"');
  await running.saw('out', /half an/);
  brain.gate.open();
  const spoken = await running.ended;
  assert.deepEqual([silent.code, silent.out], [0, 'an answer\n']);
  assert.doesNotMatch(silent.err, /lost|discard/);
  assert.deepEqual([spoken.code, spoken.out], [0, 'half an\nan answer\n']);
  assert.match(
    spoken.err,
    /^orchd: attempt 1 failed \(no luck\); a new attempt begins; discard the text above$/m,
  );
});

test('a job that has used up its tries is not said to be wrong', async () => {
  const { code, err } = await here('submit', '--follow', '--type', 'flaky', '--max-tries', '1');
  assert.equal(code, 1);
  assert.match(err, /failed: no luck \(EXECUTION_FAILED\)\norchd redrive \S+ queues it again\.$/m);
  assert.doesNotMatch(err, /Correct the job/);
});

test('--json is a line per event, from the submit to the end', async () => {
  const running = starting('submit', '--follow', '--json', '--type', 'held', '--job-id', 'lines');
  await running.saw('out', /first/);
  brain.gate.open();
  const { code, out } = await running.ended;
  const events = jsonLines(out);
  assert.equal(code, 0);
  assert.deepEqual(
    events.map(({ event }) => event).filter((event) => event !== 'queued'),
    ['submitted', 'started', 'token', 'token', 'end'],
  );
  const data = { job_id: 'lines', state: 'succeeded', result: 'done' };
  assert.deepEqual(events.at(-1), { id: '1.end', event: 'end', data });
});

test('Ctrl-C cancels an interactive job', async () => {
  const running = starting(
    'submit',
    '--follow',
    '--type',
    'held',
    '--priority',
    'interactive',
    '--job-id',
    'mine',
  );
  await running.saw('out', /first/);
  running.child.kill('SIGINT');
  const { code, err } = await running.ended;
  assert.equal(code, 130);
  assert.match(err, /orchd: mine is (being )?cancelled/);
  await until(async () => (await stateOf('mine')) === 'cancelled');
});

test('Ctrl-C leaves a batch job running and says how to come back', async () => {
  const running = starting('submit', '--follow', '--type', 'held', '--job-id', 'batch');
  await running.saw('out', /first/);
  running.child.kill('SIGINT');
  const { code, err } = await running.ended;
  assert.equal(code, 130);
  assert.match(err, /orchd: batch keeps running; `orchd tail batch` follows it/);
  assert.equal(await stateOf('batch'), 'running');
});

test('a job that somebody else cancels is exit 1', async () => {
  const running = starting('submit', '--follow', '--type', 'held', '--job-id', 'theirs');
  await running.saw('out', /first/);
  await here('cancel', 'theirs');
  const { code, err } = await running.ended;
  assert.equal(code, 1);
  assert.match(err, /orchd: job theirs was cancelled\./);
});

test('a job that waits says so to its follower, and comes when its turn has come', async () => {
  await brain.orchestrator.submit({ type: 'held', job_id: 'first' });
  await until(() => brain.gate.started.includes('first'));
  const running = starting('submit', '--follow', '--json', '--type', 'held', '--job-id', 'second');
  await running.saw('out', /"event":"queued".*"backend_busy"/);
  brain.gate.open();
  const { code, out } = await running.ended;
  assert.equal(code, 0);
  assert.match(out, /"state":"succeeded"/);
});

test('tail prints a line per event to the end, and takes up after one', async () => {
  const { job_id: id } = await brain.orchestrator.submit({ prompt: 'x y' });
  const running = starting('tail', id);
  await brain.orchestrator.wait(id);
  const whole = await running.ended;
  assert.equal(whole.code, 0);
  assert.match(linesOf(whole.out).at(-1)!, /^1\.end {3}end {6}\{.*"state":"succeeded"/);
  const heard = await here('tail', id, '--after', '1.end');
  assert.deepEqual([heard.code, heard.out], [0, '']);
  const wrong = await here('tail', id, '--after', 'yesterday');
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /"yesterday" is not an event id/);
});

test('tail follows live work, and is exit 1 when it fails', async () => {
  await brain.orchestrator.submit({ type: 'held', job_id: 'live' });
  const running = starting('tail', 'live');
  await running.saw('out', /^1\.\d +token +"first "$/m);
  brain.gate.open();
  const { code, out } = await running.ended;
  assert.equal(code, 0);
  assert.match(out, /^1\.\d +token +"last"$/m);
  await brain.orchestrator.submit({ type: 'fail', job_id: 'fails' });
  const failed = await here('tail', 'fails');
  assert.equal(failed.code, 1);
  assert.match(failed.out, /^1\.end +error +\{.*"code":"EXECUTION_FAILED"/m);
});

test('tail that is interrupted warns of what leaving does to an interactive job', async () => {
  await brain.orchestrator.submit({ type: 'held', job_id: 'watched', priority: 'interactive' });
  const running = starting('tail', 'watched');
  await running.saw('out', /first/);
  running.child.kill('SIGINT');
  const { code, err } = await running.ended;
  assert.equal(code, 130);
  assert.match(err, /watched is interactive/);
});
