/** `orchd consume` as a real process, with real commands. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { httpBrain } from '../fakes/http-brain.ts';
import { type Running, start } from './cli-process.ts';
import { aMoment, ConsumerSite } from './consumer-kit.ts';
import { tempFolder, within } from './flow-kit.ts';
import { foundInFolder } from './text-search.ts';

/** Notes that it has begun, waits for the file that its payload names, if it names one, and prints its payload. */
const SCRIPT = `
const { appendFileSync, existsSync } = require('node:fs');
const text = require('node:fs').readFileSync(0, 'utf8');
appendFileSync(process.argv[1], 'began ' + process.env.JOB_ID + '\\n');
const { until, fails } = JSON.parse(text);
const end = () => {
  if (fails) { console.error('no luck'); process.exit(70); }
  console.log(text);
};
const look = () => (until === undefined || existsSync(until) ? end() : setTimeout(look, 20));
look();
`;

class CommandSite extends ConsumerSite {
  readonly #test: TestContext;

  constructor(t: TestContext, url: string) {
    super(t, url);
    this.#test = t;
  }

  consume(...more: string[]): Running {
    const state = join(this.folder, 'state');
    const words = ['consume', '--pool', 'p', '--type', 'work', '--state', state, '--url', this.url];
    const command = [process.execPath, '-e', SCRIPT, this.ledger];
    const running = start([...words, ...more, '--', ...command]);
    this.#test.after(async () => {
      running.child.kill('SIGKILL');
      await running.ended;
    });
    return running;
  }

  begun(): string[] {
    if (!existsSync(this.ledger)) return [];
    return readFileSync(this.ledger, 'utf8')
      .split('\n')
      .filter((line) => line !== '');
  }

  async begins(job: string): Promise<void> {
    while (!this.begun().includes(`began ${job}`)) await aMoment();
  }
}

async function siteOf(t: TestContext): Promise<CommandSite> {
  const brain = await httpBrain({ data: tempFolder(t) });
  t.after(() => brain.stop());
  return new CommandSite(t, brain.url);
}

const touch = (file: string): void => writeFileSync(file, '');

test('a command gets the payload on standard input, and what it prints is the result', async (t) => {
  const site = await siteOf(t);
  const running = site.consume();
  await site.submit('good', { x: 1 });
  await site.submit('bad', { fails: true });
  const { result } = await site.ended('good');
  assert.deepEqual(result, { text: '{"x":1}\n', exit_code: 0, json: { x: 1 } });
  const { state, error } = await site.ended('bad');
  assert.equal(state, 'dead');
  assert.match(error?.message ?? '', /exit code 70: no luck/);
  running.child.kill('SIGTERM');
  assert.equal((await within(running.ended)).code, 0);
  assert.deepEqual(await site.consumers(), []);
});

test('of a job in a session nothing is left on its disk once the brain has the result, also after a kill -9', async (t) => {
  const site = await siteOf(t);
  const gate = join(site.folder, 'gate');
  const submit = (id: string, more: object) => site.submit(id, { said: `said-${id}`, until: gate }, more);
  const killed = site.consume('--slots', '2', '--lease', '60s');
  await submit('resumed', { session_id: 's' });
  await site.begins('resumed');
  killed.child.kill('SIGKILL');
  await killed.ended;
  site.consume('--slots', '2', '--lease', '60s');
  await submit('plain', {});
  await submit('own', { session_id: 's' });
  touch(gate);
  for (const id of ['resumed', 'plain', 'own'])
    assert.ok(JSON.stringify(await site.ended(id)).includes(`said-${id}`));
  const found = () =>
    foundInFolder(join(site.folder, 'state'), ['said-own', 'said-resumed', 'said-plain']).join();
  const erased = async (): Promise<void> => {
    while (/said-(?:own|resumed)/.test(found())) await aMoment();
  };
  await within(erased());
  assert.match(found(), /said-plain/, 'its successor can still deliver what it has not kept secret');
});

test('what had ended when it was killed is delivered by its successor, and what runs goes on', async (t) => {
  const site = await siteOf(t);
  const [first, second] = [join(site.folder, 'first'), join(site.folder, 'second')];
  const killed = site.consume('--slots', '3', '--lease', '60s');
  // Each of them is the answer to a claim of its own, and a third claim waits.
  await site.submit('ended', { until: first });
  await site.begins('ended');
  await site.submit('running', { until: second });
  await site.begins('running');
  killed.child.kill('SIGKILL');
  await killed.ended;
  touch(first);
  site.consume('--slots', '3', '--lease', '60s');
  const { state, attempts } = await site.ended('ended');
  assert.deepEqual([state, attempts.length], ['succeeded', 1]);
  assert.equal((await site.job('running')).state, 'running');
  touch(second);
  assert.equal((await site.ended('running')).attempts.length, 1);
  assert.deepEqual(site.begun().sort(), ['began ended', 'began running']);
});

test('killed again and again, it runs each job once', async (t) => {
  const site = await siteOf(t);
  const ids = Array.from({ length: 40 }, (_, n) => `job${n}`);
  for (const id of ids) await site.submit(id, {});
  const words = ['--slots', '4', '--lease', '120s'];
  for (const enough of [3, 12, 24]) {
    const running = site.consume(...words);
    while (site.begun().length < enough) await aMoment();
    running.child.kill('SIGKILL');
    await running.ended;
  }
  site.consume(...words);
  for (const id of ids) assert.equal((await site.ended(id)).attempts.at(-1)?.outcome, 'succeeded', id);
  assert.deepEqual(site.begun().sort(), ids.map((id) => `began ${id}`).sort());
});

test('a command whose job was lost while its consumer was dead is ended, and its result is not used', async (t) => {
  const site = await siteOf(t);
  const until = join(site.folder, 'never');
  const killed = site.consume('--lease', '1s');
  await site.submit('lost', { until }, { max_tries: 1 });
  await site.begins('lost');
  killed.child.kill('SIGKILL');
  await killed.ended;
  const { state } = await site.ended('lost');
  assert.equal(state, 'dead');
  site.consume('--lease', '15s');
  // Its only slot is free again.
  await site.submit('next', {});
  assert.equal((await site.ended('next')).state, 'succeeded');
  assert.equal((await site.job('lost')).state, 'dead');
});

test('stopped past its lease, it has lost its job to another consumer when it goes on, and its command is ended', async (t) => {
  const site = await siteOf(t);
  const stopped = site.consume('--lease', '1s');
  await site.submit('job', { until: join(site.folder, 'never') });
  await site.begins('job');
  stopped.child.kill('SIGSTOP');
  const other = site.start('Node', { slots: 1 });
  const { result, attempts } = await site.ended('job');
  assert.deepEqual([result, attempts.length], [{ pid: other.child.pid }, 2]);
  other.signal('SIGTERM');
  await within(other.ended);
  stopped.child.kill('SIGCONT');
  // Its only slot is free again.
  await site.submit('next', {});
  assert.equal((await site.ended('next')).state, 'succeeded');
  assert.deepEqual((await site.job('job')).result, result);
  const ran = site.begun().filter((line) => !line.startsWith('ended'));
  assert.deepEqual(ran, ['began job', `began job:2 ${other.child.pid}`, 'began next']);
});

test('a folder has one consumer at a time, of one pool', async (t) => {
  const site = await siteOf(t);
  const first = site.consume();
  await first.saw('err', /at work/);
  const second = await within(site.consume().ended);
  assert.equal(second.code, 2);
  assert.match(second.err, /another `orchd consume` has the folder/);
  first.child.kill('SIGTERM');
  await first.ended;
  const other = await within(site.consume('--pool', 'other').ended);
  assert.match(other.err, /belongs to the consumer p\//);
});
