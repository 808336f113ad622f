/** `orchd submit --file`: a file of jobs is checked as a whole, and submitted once. */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { run } from '../../src/cli/run.ts';
import { OrchdClient } from '../../src/client/client.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { fakeTerminal } from '../fakes/terminal.ts';
import { type HowToRun, jsonLines, orchd, type Ran, start, until } from './cli-process.ts';

const CAPACITY = 300;

let brain: HttpBrain;
let client: OrchdClient;
let held = Promise.withResolvers<void>();
const ran: string[] = [];
const folder = mkdtempSync(join(tmpdir(), 'orchd-batch-'));

before(async () => {
  const echo = async (payload: { prompt?: string }, { jobId }: { jobId: string }) => {
    ran.push(jobId);
    return { text: payload.prompt };
  };
  brain = await httpBrain({
    config: `orchestrator: { queue_capacity: ${CAPACITY} }`,
    backends: [
      { name: 'fast', slots: 64, types: { inference: echo as never } },
      { name: 'held', slots: 1000, types: { held: () => held.promise } },
    ],
  });
  client = new OrchdClient({ url: brain.url });
});
after(async () => {
  held.resolve();
  await brain.stop();
  rmSync(folder, { recursive: true, force: true });
});

const here = (words: readonly string[], how: HowToRun = {}): Promise<Ran> =>
  orchd(words, { ...how, env: { ORCHD_URL: brain.url, TMPDIR: folder, ...how.env } });

let files = 0;
function fileOf(content: string): string {
  const path = join(folder, `jobs-${++files}.jsonl`);
  writeFileSync(path, content);
  return path;
}

const prompts = (count: number, from = 1): string[] =>
  Array.from({ length: count }, (_, at) => JSON.stringify({ prompt: `prompt ${from + at}` }));

const submit = async (path: string, ...words: string[]): Promise<Ran & { batch: string }> => {
  const said = await here(['submit', '--file', path, ...words]);
  return { ...said, batch: said.out.trim() };
};

async function promptsOf(batch: string): Promise<(readonly [string, unknown])[]> {
  await client.waitForBatch(batch, { pollMs: 10 });
  const found: (readonly [string, unknown])[] = [];
  for await (const { job_id, result } of client.results(batch))
    found.push([job_id, (result as { text: string }).text]);
  return found;
}

test('a bad line anywhere is named by its number, with the nearest name, and nothing is submitted', async () => {
  const lines = prompts(5000);
  lines[4710] = '{"prompt": "x", "modle": "demo"}';
  const path = fileOf(lines.join('\n'));
  const { code, out, err } = await submit(path);
  assert.deepEqual([code, out], [2, '']);
  assert.match(err, /^\S+\.jsonl:4711: "modle" is not a known field; did you mean "model"\?$/m);
  assert.match(err, /1 fault in 5,000 lines; nothing was submitted/);
  assert.deepEqual(
    (await client.batches()).filter(({ name }) => name === basename(path)),
    [],
  );
});

test('all faults are found in one go: twenty are shown, the others counted', async () => {
  const bad = [
    '{"prompt": ',
    '17',
    '[]',
    '{"prompt": "x", "job_id": "mine"}',
    '{"batch": "b", "prompt": "x"}',
    '""',
  ];
  const path = fileOf(
    [...bad, ...Array.from({ length: 30 }, () => '{"max_tries": 0, "prompt": "x"}')].join('\n'),
  );
  const { code, err } = await submit(path, '--dry-run');
  assert.equal(code, 2);
  const shown = err.split('\n').filter((line) => /jsonl:\d+: /.test(line));
  assert.equal(shown.length, 20);
  assert.match(shown[0]!, /:1: not valid JSON: /);
  assert.match(shown[1]!, /:2: the line must be an object, or a prompt in quotes/);
  assert.match(shown[3]!, /:4: "job_id" is made of the batch and the number of the line/);
  assert.match(shown[4]!, /:5: "batch" is the same for the whole file/);
  assert.match(shown[5]!, /:6: the prompt is empty/);
  assert.match(shown[6]!, /:7: "max_tries" must be at least 1/);
  assert.match(err, /^and 16 more$/m);
  assert.match(err, /36 faults in 36 lines/);
});

test('a BOM, CRLF, blank lines and a missing line feed at the end are no faults; a text in quotes is a prompt', async () => {
  const path = fileOf('\ufeff{"prompt": "one"}\r\n\r\n  \n"two"\r\n{"prompt": "thr\u00ebe"}');
  const { code, batch, err } = await submit(path);
  assert.equal(code, 0, err);
  assert.match(batch, /^f-[0-9a-f]{16}$/);
  assert.deepEqual(await promptsOf(batch), [
    [`${batch}.1`, 'one'],
    [`${batch}.4`, 'two'],
    [`${batch}.5`, 'thr\u00ebe'],
  ]);
  assert.equal((await client.batch(batch)).name, basename(path));
});

test('options are defaults: a line that says otherwise keeps its own, tags are joined', async () => {
  const path = fileOf('{"prompt": "a"}\n{"prompt": "b", "agent": "own", "tags": {"k": "own", "m": "1"}}\n');
  const { code, batch } = await submit(path, '--agent', 'given', '--tag', 'k=v', '--tag', 'x=y');
  assert.equal(code, 0);
  const jobs = await Promise.all([1, 2].map((line) => client.get(`${batch}.${line}`)));
  assert.deepEqual(
    jobs.map(({ agent, tags }) => [agent, tags]),
    [
      ['given', { k: 'v', x: 'y' }],
      ['own', { k: 'own', x: 'y', m: '1' }],
    ],
  );
  assert.deepEqual((await client.batch(batch)).tags, { k: 'v', x: 'y' });
  const other = await submit(path, '--agent', 'another', '--dry-run', '--json');
  assert.notEqual(JSON.parse(other.out).batch_id, batch, 'other options are another batch');
});

test('run twice it submits nothing twice; --again makes another batch', async () => {
  const path = fileOf(prompts(50).join('\n'));
  const first = await submit(path);
  assert.match(first.err, /batch f-\w+: 50 submitted\.$/m);
  await promptsOf(first.batch);
  const second = await submit(path, '--json');
  assert.deepEqual(
    [second.code, JSON.parse(second.out)],
    [
      0,
      {
        batch_id: first.batch,
        lines: 50,
        submitted: 0,
        already_there: 50,
        refused: 0,
        skipped: 0,
        not_submitted: 0,
      },
    ],
  );
  assert.equal(ran.filter((id) => id.startsWith(`${first.batch}.`)).length, 50);
  const third = await submit(path, '--again');
  assert.notEqual(third.batch, first.batch);
  assert.match(third.err, /50 submitted/);
});

test('--batch: only appended lines are new, and a line that was changed is a conflict that is named', async () => {
  const path = fileOf(`${prompts(3).join('\n')}\n`);
  assert.deepEqual((await submit(path, '--batch', 'mine')).batch, 'mine');
  appendFileSync(path, `${prompts(2, 4).join('\n')}\n`);
  const appended = await submit(path, '--batch', 'mine');
  assert.match(appended.err, /batch mine: 2 submitted, 3 already there\./);
  const changed = prompts(5);
  changed[1] = '{"prompt": "another"}';
  writeFileSync(path, changed.join('\n'));
  const { code, err } = await submit(path, '--batch', 'mine');
  assert.equal(code, 1);
  assert.match(err, /:2: the job exists with other content: .*\(JOB_CONFLICT\)\n/);
  assert.match(err, /batch mine: 0 submitted, 4 already there, 1 refused\./);
});

test('standard input is taken like a file, and leaves no file behind', async () => {
  const input = prompts(20).join('\n');
  const before = readdirSync(folder);
  const [a, b] = [
    await here(['submit', '--file', '-'], { input }),
    await here(['submit', '--file', '-'], { input }),
  ];
  assert.deepEqual([a.code, b.code, a.out], [0, 0, b.out]);
  assert.match(b.err, /0 submitted, 20 already there/);
  assert.deepEqual(readdirSync(folder), before);
  const empty = await here(['submit', '--file', '-'], { input: '\n\n' });
  assert.equal(empty.code, 2);
  assert.match(empty.err, /standard input has no jobs/);
});

test('names of lines become job ids in "after"; a job of another batch is named by its id', async () => {
  const earlier = (await client.submit({ prompt: 'earlier', job_id: 'earlier' })).job_id;
  const path = fileOf(
    [
      '{"name": "a", "prompt": "first"}',
      '{"name": "b & c", "prompt": "second", "after": ["a", "earlier"]}',
      '{"prompt": "third", "after": ["b & c", "a"]}',
    ].join('\n'),
  );
  const { code, batch, err } = await submit(path);
  assert.equal(code, 0, err);
  await promptsOf(batch);
  const after = await Promise.all(
    [1, 2, 3].map(async (line) => (await client.get(`${batch}.${line}`)).after),
  );
  assert.deepEqual(after, [undefined, [`${batch}.1`, earlier], [`${batch}.2`, `${batch}.1`]]);
  const own = ran.filter((id) => id.startsWith(`${batch}.`));
  assert.deepEqual(
    own,
    [1, 2, 3].map((line) => `${batch}.${line}`),
  );
});

test('a name that stands further down, on its own line, twice or nowhere is a fault of its line', async () => {
  const path = fileOf(
    [
      '{"prompt": "x", "after": ["late"]}',
      '{"name": "own", "prompt": "x", "after": ["own"]}',
      '{"name": "late", "prompt": "x"}',
      '{"name": "late", "prompt": "x"}',
      '{"prompt": "x", "after": ["lat"]}',
      '{"prompt": "x", "after": ["no such name"]}',
    ].join('\n'),
  );
  const { code, err } = await submit(path);
  assert.equal(code, 2);
  assert.match(err, /:1: "late" in "after" is line 3, further down/);
  assert.match(err, /:2: "after" has the name of its own line/);
  assert.match(err, /:4: the name "late" is that of line 3/);
  assert.match(err, /:5: "lat" in "after" is neither the name of a line nor the id of a job/);
  assert.match(err, /:6: "no such name" in "after" is neither/);
});

test('--skip-bad submits the other lines, without those that wait for a bad one, and says which', async () => {
  const path = fileOf(
    [
      '{"name": "good", "prompt": "1"}',
      '{"name": "bad", "promt": "2"}',
      '{"name": "waits", "prompt": "3", "after": ["bad"]}',
      '{"prompt": "4", "after": ["good"]}',
    ].join('\n'),
  );
  const { code, batch, err } = await submit(path, '--skip-bad');
  assert.equal(code, 0);
  assert.match(err, /^skipped \S+:2: .*"promt" is not a known field/m);
  assert.match(err, /^skipped \S+:3: "bad" in "after" is neither/m);
  assert.deepEqual(await promptsOf(batch), [
    [`${batch}.1`, '1'],
    [`${batch}.4`, '4'],
  ]);
});

/**
 * Calls `act` when the command has checked the file, before it sends the first line: that is when it warns of a start in
 * the past.
 */
async function whileSending(path: string, act: () => void): Promise<Ran> {
  const { terminal, written } = fakeTerminal();
  const complain = terminal.complain.bind(terminal);
  const watched = {
    ...terminal,
    complain(text: string) {
      complain(text);
      if (/is in the past/.test(text)) act();
    },
  };
  const late = ['--at', '2020-01-01T00:00Z'];
  const code = await run(['submit', '--file', path, '--url', brain.url, ...late], watched);
  return { code, ...written };
}

test('a file that is cut or changed after it was checked is noticed, and what was changed is not submitted', async () => {
  const cut = fileOf(prompts(40).join('\n'));
  const ofCut = await whileSending(cut, () => truncateSync(cut, 100));
  assert.equal(ofCut.code, 1);
  assert.match(ofCut.err, /was changed or cut while it was sent; 40 lines of it were not submitted/);
  const changed = fileOf(prompts(40).join('\n'));
  const ofChanged = await whileSending(changed, () => writeFileSync(changed, prompts(40, 1000).join('\n')));
  assert.equal(ofChanged.code, 1);
  assert.match(ofChanged.err, /changed or cut/);
  const [, batch = ''] = /^batch (\S+): 0 submitted/m.exec(ofChanged.err) ?? [];
  assert.deepEqual([ofChanged.out, (await client.batch(batch)).jobs], ['', 0]);
  const grown = fileOf(`${prompts(3).join('\n')}\n`);
  const ofGrown = await whileSending(grown, () => appendFileSync(grown, '{"prompt": "new"}\n'));
  assert.equal(ofGrown.code, 0);
  assert.match(ofGrown.err, /has grown since it was checked/);
});

test('a full queue: it says how many are in, the same command adds the rest, --patient feeds it as room comes', async () => {
  held = Promise.withResolvers();
  const total = 3 * CAPACITY + 1000;
  // Of the last lines, for which there is no room at first, each waits for the one before it.
  const lines = Array.from({ length: total }, (_, at) =>
    JSON.stringify({
      type: 'held',
      payload: at,
      name: `n${at}`,
      ...(at > total - 50 && { after: [`n${at - 1}`] }),
    }),
  );
  const path = fileOf(lines.join('\n'));
  const full = await submit(path, '--json');
  assert.equal(full.code, 1);
  assert.match(
    full.err,
    /\(QUEUE_FULL\); [\d,]+ lines not submitted\.\nRun the same command again later .*--patient/,
  );
  const { batch_id: batch, submitted, not_submitted: left, refused } = JSON.parse(full.out);
  assert.ok(submitted >= CAPACITY && submitted < total, full.out);
  assert.deepEqual([submitted + left, refused], [total, 0]);
  const patient = start(['submit', '--file', path, '--patient', '--json'], { env: { ORCHD_URL: brain.url } });
  held.resolve();
  const ended = await patient.ended;
  assert.equal(ended.code, 0, ended.err);
  assert.deepEqual(JSON.parse(ended.out), {
    batch_id: batch,
    lines: total,
    submitted: left,
    already_there: submitted,
    refused: 0,
    skipped: 0,
    not_submitted: 0,
  });
  await client.waitForBatch(batch, { pollMs: 10 });
  const results = await here(['results', batch]);
  assert.deepEqual(
    jsonLines(results.out).map(({ line }) => line),
    lines.map((_, at) => at + 1),
  );
});

test('Ctrl-C says what is submitted and how to go on', async () => {
  held = Promise.withResolvers();
  const path = fileOf('{"type": "held", "payload": null}\n'.repeat(CAPACITY + 2000));
  const submitting = start(['submit', '--file', path, '--patient', '--again'], {
    env: { ORCHD_URL: brain.url },
  });
  const batch = (await submitting.saw('out', /f-[0-9a-f]{16}\n/)).trim();
  await until(async () => (await client.batch(batch)).counts.queued >= CAPACITY);
  submitting.child.kill('SIGINT');
  const { code, err } = await submitting.ended;
  assert.equal(code, 130);
  assert.match(
    err,
    /batch f-\w+: [\d,]+ submitted\.\norchd submit: interrupted; [\d,]+ lines not submitted\./,
  );
  assert.match(err, new RegExp(`Run the same command with --batch ${batch} instead of --again to go on`));
  held.resolve();
  await client.waitForBatch(batch, { pollMs: 10 });
});

test('a progress bar on a terminal', async () => {
  const path = fileOf(prompts(30).join('\n'));
  const { terminal, written } = fakeTerminal({ isTTY: true });
  assert.equal(await run(['submit', '--file', path, '--wait', '--url', brain.url], terminal), 0);
  assert.match(written.err, /\[[#.]{10}\] \d+ of 30 lines answered, 30 sent/);
  assert.match(written.err, /batch f-\w+: 30 submitted\.\n[\s\S]*batch f-\w+: 30 succeeded\.\n$/);
});

test('--in counts from the creation of the batch, so that a second run is the same; --at in the past says so', async () => {
  const path = fileOf(prompts(2).join('\n'));
  const { batch } = await submit(path, '--in', '1d');
  const [{ not_before: start }, { created_at: created }] = await Promise.all([
    client.get(`${batch}.1`),
    client.batch(batch),
  ]);
  assert.equal(start, created + 86_400_000);
  assert.match((await submit(path, '--in', '1d')).err, /0 submitted, 2 already there/);
  await client.cancelMany({ batch });
  const past = await here(['submit', 'hello', '--at', '2020-01-01T00:00+01:00']);
  assert.equal(past.code, 0);
  assert.match(past.err, /2020-01-01T00:00\+01:00 is in the past: it starts at once/);
  assert.equal((await brain.orchestrator.wait(past.out.trim())).state, 'succeeded');
});

test('lines that are all refused for one reason: it is said once, and no batch is printed', async () => {
  const path = fileOf(prompts(30).join('\n'));
  const { code, out, err } = await submit(path, '--after', 'nobody', '--wait');
  assert.deepEqual([code, out], [1, '']);
  assert.match(
    err,
    /^\S+\.jsonl: all 30 lines: there is no job "nobody" to wait for.*\(ADMISSION_REJECT\)$/m,
  );
  assert.equal(err.split('there is no job').length, 2, err);
  assert.match(err, /: 0 submitted, 30 refused\.$/m);
  const bare = await submit(fileOf('one\ntwo\n'));
  assert.match(bare.err, /\.jsonl: all 2 lines: not JSON; a prompt needs quotes/);
});

test('a batch in "after" is called one', async () => {
  await client.createBatch({ batch_id: 'no-job' });
  const line = JSON.stringify({ prompt: 'x', after: ['no-job'] });
  assert.match((await submit(fileOf(line))).err, /\.jsonl:1: "no-job" is a batch; "after" takes/);
  const single = await here(['submit', 'x', '--after', 'no-job']);
  assert.match(single.err, /"no-job" is a batch; after takes job ids/);
});

test('Ctrl-C while --wait waits: the command is named, and the jobs go on', async () => {
  held = Promise.withResolvers();
  const path = fileOf('{"type": "held", "payload": null}\n');
  const waiting = start(['submit', '--file', path, '--wait', '--again'], { env: { ORCHD_URL: brain.url } });
  await waiting.saw('err', /1 submitted/);
  const [, batch = ''] = /(f-\w+)/.exec(await waiting.saw('out', /\n/)) ?? [];
  await until(async () => (await client.batch(batch)).counts.running === 1);
  waiting.child.kill('SIGINT');
  const { code, err } = await waiting.ended;
  assert.equal(code, 130);
  assert.match(err, /^orchd submit: interrupted; 1 of 1 job has not ended\.$/m);
  assert.match(
    err,
    new RegExp(`goes on: \`orchd wait ${batch}\` waits again, \`orchd cancel --batch ${batch} --yes\` stops`),
  );
  assert.equal((await client.batch(batch)).counts.running, 1);
  held.resolve();
  await client.waitForBatch(batch, { pollMs: 10 });
});
