/** What people do with a spool from the command line, with wrong input too: every refusal says what to do next. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { type TestContext, test } from 'node:test';
import { run } from '../../src/cli/run.ts';
import { makeSpoolKit, type SpoolKit } from '../fakes/spool-kit.ts';
import { fakeTerminal } from '../fakes/terminal.ts';

interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

class Person {
  readonly kit: SpoolKit;

  constructor(kit: SpoolKit) {
    this.kit = kit;
  }

  static async make(t: TestContext): Promise<Person> {
    return new Person(await makeSpoolKit(t));
  }

  async says(action: string, ...rest: string[]): Promise<Said> {
    const { terminal, written } = fakeTerminal();
    const code = await run(['spool', action, this.kit.folder, ...rest], terminal);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
    assert.doesNotMatch(written.out + written.err, /[\x00-\x09\x0b-\x1f\x7f]/);
    return { code, ...written };
  }

  async succeeds(action: string, ...rest: string[]): Promise<Said> {
    const said = await this.says(action, ...rest);
    assert.equal(said.code, 0, said.err);
    return said;
  }

  async refuses(code: number, words: readonly [string, ...string[]], ...expected: RegExp[]): Promise<void> {
    const said = await this.says(...words);
    assert.equal(said.code, code, said.err);
    assert.equal(said.out, '');
    for (const pattern of expected) assert.match(said.err, pattern);
  }

  put(place: string, name: string, status: string, more: object = {}): void {
    const job = { status, 'schema-version': '1.0.0', ...more };
    this.kit.put(`${place}/${name}`, { 'prompt.json': '{"prompt":"x"}', 'job.json': JSON.stringify(job) });
  }
}

test('a job is submitted, listed, shown, killed and queued again', async (t) => {
  const person = await Person.make(t);
  const { out } = await person.succeeds('submit', 'Why?', '--priority', '3', '--max-retries', '7');
  const made = out.trim();
  assert.match(made, /^p3-\d{8}T\d{9}-/);
  await person.succeeds('submit', 'And at night?', '--name', 'at night');
  assert.match((await person.succeeds('ls')).out, new RegExp(`${made} .*\\n.*at night`));
  assert.match(
    (await person.succeeds('show', made)).out,
    /max_retries +7\n(.*\n)*prompt +\{"prompt":"Why\?"\}/,
  );
  assert.match((await person.succeeds('history', made)).err, /nothing has happened/);
  assert.match((await person.succeeds('kill', made)).err, /is killed/);
  assert.match((await person.succeeds('history', made)).out, /queued +killed .*killed by order/);
  assert.match((await person.succeeds('requeue', made)).err, /is queued again/);
  const listed = (await person.succeeds('ls', '--json')).out.trim().split('\n');
  assert.deepEqual(
    listed.map((line) => (JSON.parse(line) as { name: string; status: string }).status),
    ['queued', 'queued'],
  );
});

test('ls shows what waits in the order in which agents claim it', async (t) => {
  const person = await Person.make(t);
  for (const name of ['p9-a', 'p5-b', 'other', 'p0-c']) await person.succeeds('submit', 'x', '--name', name);
  const { out } = await person.succeeds('ls', '--in', 'incoming');
  const names = out
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split(' ')[0]);
  assert.deepEqual(names, ['p0-c', 'other', 'p5-b', 'p9-a']);
});

test('a folder that is no spool is refused by every action, and init makes one', async (t) => {
  const { kit } = await Person.make(t);
  const other = new Person({ ...kit, folder: `${kit.folder}-other` });
  for (const words of [['ls'], ['check'], ['show', 'x'], ['submit', 'x'], ['up', '--', 'true'], ['watchdog']])
    await other.refuses(
      2,
      words as [string],
      /-other" is not there \(SPOOL_INVALID\)\n.*orchd spool init DIR/,
    );
  fs.writeFileSync(other.kit.folder, '');
  await other.refuses(2, ['ls'], /-other" is no folder/);
  await other.refuses(2, ['init'], /cannot be made into a spool \(EEXIST\)/);
  fs.rmSync(other.kit.folder);
  assert.match(
    (await other.succeeds('init')).err,
    /is a spool; `orchd spool up .*-other -- COMMAND` runs its jobs/,
  );
  await other.succeeds('init');
  fs.rmdirSync(other.kit.path('..', 'spool-other', 'tmp'));
  await other.refuses(2, ['ls'], /-other" is no spool: "tmp" is not there/);
  const { code, out } = await other.says('check');
  assert.deepEqual([code, /^broken: tmp: /.test(out)], [1, true]);
});

test('a job that is not there, or not in a place for this, is refused with what to do', async (t) => {
  const person = await Person.make(t);
  await person.succeeds('submit', 'x', '--name', "it's mine");
  for (const action of ['show', 'history', 'requeue', 'kill'])
    await person.refuses(
      1,
      [action, 'none'],
      /no job "none".*NOT_FOUND\)\n`orchd spool ls \S+` lists its jobs/,
    );
  await person.refuses(
    1,
    ['submit', 'x', '--name', "it's mine"],
    /lies in incoming \(JOB_CONFLICT\)\nGive another --name; `orchd spool show \S+ 'it'\\''s mine'`/,
  );
  await person.refuses(1, ['requeue', "it's mine"], /waits already .*\nAn agent takes it/);
  person.put('completed/succeeded', 'done', 'succeeded');
  await person.refuses(1, ['requeue', 'done'], /has succeeded.*\nSubmit it under another name/);
  await person.refuses(1, ['kill', 'done'], /has ended already \(succeeded\).*\n`orchd spool show \S+ done`/);
  person.put('in-progress/agent-1', 'held', 'in-progress');
  await person.refuses(1, ['requeue', 'held'], /an agent has "held".*\n`orchd spool kill \S+ held`/);
  assert.match((await person.succeeds('kill', 'held')).err, /the agent of held has been told/);
  assert.ok(fs.existsSync(person.kit.path('in-progress/agent-1/held/kill')));
});

test('what cannot be read is listed with the reason, and left alone with a hint', async (t) => {
  const person = await Person.make(t);
  person.put('incoming', 'newer', 'queued', { 'schema-version': '9\u001b[31m\nplace  succeeded' });
  person.kit.put('incoming/half', { 'prompt.json': '{}', 'job.json': '{"status":' });
  fs.writeFileSync(person.kit.path('incoming/file'), '');
  person.put('jobs/stale', 'old', 'stale', { 'schema-version': '0.1' });
  const { out } = await person.succeeds('ls');
  assert.match(out, /^file +incoming +it is no folder$/m);
  assert.match(out, /^half +incoming +job\.json is not JSON$/m);
  for (const name of ['newer', 'half', 'file'])
    await person.refuses(1, ['kill', name], /cannot be killed: .*\n`orchd spool check \S+` says what to do/);
  await person.refuses(1, ['requeue', 'old'], /cannot be queued again: its schema-version is "0\.1"/);
  assert.match((await person.succeeds('show', 'newer')).out, /^place +incoming$/m);
  assert.doesNotMatch((await person.succeeds('show', 'newer')).out, /^place +succeeded/m);
  const { code, out: found } = await person.says('check');
  assert.equal(code, 1);
  assert.doesNotMatch(found, /^place/m);
});

test('a job whose status does not go with its place is left alone with a hint', async (t) => {
  const person = await Person.make(t);
  person.put('incoming', 'again', 'succeeded');
  person.put('completed/failed', 'other', 'succeeded');
  await person.refuses(
    1,
    ['kill', 'again'],
    /cannot be killed: job.json says succeeded/,
    /orchd spool check/,
  );
  await person.refuses(1, ['requeue', 'other'], /cannot be queued again: job.json says succeeded/);
  assert.deepEqual(person.kit.names('incoming'), ['again']);
  assert.deepEqual(person.kit.names('completed/failed'), ['other']);
  assert.deepEqual(person.kit.names('tmp'), []);
});

test('hostile names do not reach the terminal, nor a place outside of the spool', async (t) => {
  const person = await Person.make(t);
  const evil = 'evil\u001b[2J\nname';
  person.kit.put(`incoming/${evil}`, { 'prompt.json': '{}' });
  assert.match((await person.succeeds('ls')).out, /evil.*its name cannot be used: it contains a control/);
  assert.equal((await person.says('check')).code, 1);
  for (const name of [evil, '../../x', 'a/b', '.hidden', 'x.lock', '', 'x'.repeat(300)]) {
    await person.refuses(2, ['submit', 'x', '--name', name], /cannot be the name of a job: /);
    for (const action of ['show', 'kill', 'requeue', 'history'])
      await person.refuses(2, [action, name], /cannot be the name of a job: /);
  }
});

test('a prompt comes from a text, a file or nowhere else', async (t) => {
  const person = await Person.make(t);
  const file = `${person.kit.folder}-prompt.json`;
  t.after(() => fs.rmSync(file, { force: true }));
  await person.refuses(2, ['submit'], /the prompt is missing/);
  await person.refuses(2, ['submit', 'one', 'two'], /only one prompt/);
  await person.refuses(2, ['submit', '--file', file], /cannot be read \(ENOENT\)/);
  fs.writeFileSync(file, '{');
  await person.refuses(2, ['submit', '--file', file], /is not JSON/);
  fs.writeFileSync(file, '{"type":"count"}');
  await person.refuses(2, ['submit', 'x', '--file', file], /unexpected argument "x"/);
  await person.succeeds('submit', '--file', file, '--name', 'job');
  assert.match((await person.succeeds('show', 'job')).out, /prompt +\{"type":"count"\}/);
});

test('an agent is told what runs its jobs, once', async (t) => {
  const person = await Person.make(t);
  await person.refuses(2, ['agent'], /a command after --, or a brain with --brain URL/);
  await person.refuses(2, ['up', '--brain', 'http://x', '--', 'true'], /not to both/);
  await person.refuses(2, ['up', '--brain', 'nowhere'], /"nowhere" is not an address/);
  await person.refuses(2, ['up', '--brain', 'http://x', '--cwd', '.'], /--cwd is only for a command/);
  await person.refuses(2, ['up', '--token', 'x', '--', 'true'], /--token is only for --brain/);
  await person.refuses(2, ['manager', '--brain', 'http://x'], /--brain is for agent, watchdog and up/);
});
