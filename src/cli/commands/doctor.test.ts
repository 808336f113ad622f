/** The command as a person or a script meets it: its words, its exit codes, and what it never shows. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { FolderMaker, JobScript } from '../../../test/fakes/folder-maker.ts';
import { fakeTerminal } from '../../../test/fakes/terminal.ts';
import { RealDisk } from '../../kit/env/real-disk.ts';
import { run } from '../run.ts';
import { doctor } from './doctor.ts';

const root = mkdtempSync(join(tmpdir(), 'orchd-cli-'));
let folders = 0;

after(() => rmSync(root, { recursive: true, force: true }));

async function makeFolder(damage?: 'flip'): Promise<string> {
  const folder = join(root, `data-${++folders}`);
  const maker = await FolderMaker.make(new RealDisk(), folder);
  for (const id of ['one', 'two', 'three']) await maker.add(...new JobScript(id).ask(maker.next));
  if (damage) {
    const bytes = readFileSync(maker.segment);
    bytes.writeUInt8(bytes.readUInt8(1100) ^ 1, 1100);
    writeFileSync(maker.segment, bytes);
  }
  return folder;
}

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** What the command does, in this process. */
async function orchd(...words: string[]): Promise<Ran> {
  const { terminal, written } = fakeTerminal();
  const code = await run(words, terminal);
  return noStack({ code, ...written });
}

/** The command as it is installed. */
function spawned(...words: string[]): Ran {
  const main = join(import.meta.dirname, '../main.ts');
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], { encoding: 'utf8' });
  return noStack({ code: status, out: stdout, err: stderr });
}

function noStack(ran: Ran): Ran {
  for (const text of [ran.out, ran.err]) assert.doesNotMatch(text, /\n\s+at .*[:(]/, 'a stack trace');
  return ran;
}

test('a healthy folder: exit code 0, a line per check, no colours if standard output is not a terminal', async () => {
  const { code, out, err } = spawned('doctor', await makeFolder());
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^ok {4}folder {15}it is a data folder\n/);
  assert.match(out, /is healthy \(4 changes, .*; 3 jobs in memory \(3 queued\)\)/);
  assert.ok(!out.includes('\u001b'));
});

test('a damaged folder: exit code 1, the place, what can be salvaged and how', async () => {
  const folder = await makeFolder('flip');
  const { code, out } = await orchd('doctor', folder);
  assert.equal(code, 1);
  assert.match(out, /^bad +log\.frames .*\[log\/0{15}1\.log:1024\]$/m);
  assert.match(
    out,
    /Can be salvaged: everything up to change 2, up to log\/0{15}1\.log:1024; 1 job in memory/,
  );
  assert.ok(out.includes(`orchd doctor ${folder} --salvage NEWDIR`));
  assert.match(out, /^Careful: the job that has not ended there may have run .* paid again\.$/m);
});

test('--salvage writes the new folder, which is healthy', async () => {
  const target = join(root, 'saved');
  const { code, out } = await orchd('doctor', await makeFolder('flip'), '--salvage', target);
  assert.equal(code, 1, 'the folder that was looked at has problems');
  assert.ok(out.includes(`Wrote ${target}: everything up to change 2`));
  assert.match(out.slice(out.indexOf('Wrote')), /^Careful: the job that has not ended there may have run/m);
  assert.ok(
    out.endsWith(`\nTo continue with it: orchd up --data ${target}\n`) && !out.includes('To salvage it'),
    out,
  );
  assert.equal((await orchd('doctor', target)).code, 0);
  const again = await orchd('doctor', target, '--salvage', target);
  assert.equal(again.code, 2);
  assert.match(again.err, /must be outside the damaged one \(INVALID_PARAMS\)/);
});

test('missing bodies are counted as lost for good, and no salvage is advised for them', async () => {
  const folder = join(root, `data-${++folders}`);
  const maker = await FolderMaker.make(new RealDisk(), folder);
  for (const [at, id] of ['one', 'two'].entries()) {
    const payload = { file: 1, offset: at * 5000, bytes: 5000, crc: 0 };
    await maker.add(...new JobScript(id).ask(maker.next, { payload }));
  }
  const { code, out } = await orchd('doctor', folder);
  assert.equal(code, 1);
  assert.match(
    out,
    /^Lost for good: 2 bodies \(payloads or results\)\. orchd starts from this folder as it is/m,
  );
  assert.doesNotMatch(out, /Nothing is lost|--salvage/);
  const saved = await orchd('doctor', folder, '--salvage', join(root, 'bodiless'));
  assert.match(
    saved.out,
    /Wrote .* Lost: 2 bodies \(payloads or results\), whose files are missing or damaged\./,
  );
  assert.doesNotMatch(saved.out, /Careful/, 'no change is lost');
});

test('--json writes one object per line: findings, then the summary', async () => {
  const { code, out } = await orchd('doctor', await makeFolder('flip'), '--json');
  assert.equal(code, 1);
  const lines = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const bad = lines.find(({ check, verdict }) => check === 'log.frames' && verdict === 'bad');
  assert.equal(bad.position, 'log/0000000000000001.log:1024');
  const { type, verdict, in_use, is_data_folder, salvage, facts } = lines.at(-1);
  assert.deepEqual([type, verdict, in_use, is_data_folder], ['summary', 'bad', false, true]);
  assert.deepEqual([salvage.up_to, facts.last_seq], [2, 2]);
});

test('what cannot be read, and every wrong call: exit code 2, one sentence and a hint', async () => {
  const folder = await makeFolder();
  const file = import.meta.filename;
  const cases: [words: string[], sentence: RegExp][] = [
    [['doctor'], /the data folder is missing.*\nRun `orchd doctor --help`/],
    [['doctor', folder, folder], /only one data folder can be given/],
    [['doctor', folder, '--jsn'], /no option "--jsn". Did you mean "--json"\?/],
    [['doctor', folder, '--salvage'], /"--salvage" needs a value/],
    [['doctor', folder, '--json=yes'], /"--json" takes no value/],
    [['doktor', folder], /no command "doktor". Did you mean "doctor"\?\nRun `orchd --help`/],
    [['--jsno'], /no option "--jsno"/],
    [['doctor', file], /doctor\.test\.ts" is not a folder\./],
    [['doctor', join(file, 'x')], /x" cannot be a folder: a part of the path is a file\./],
    [['up', '--data', file], /is not a folder\./],
    [['token', 'list', '--data', file], /is not a folder\./],
    [['migrate', '--from', `journal:${file}`, '--to', 'journal:/no'], /is not a folder\./],
  ];
  for (const [words, sentence] of cases) {
    const { code, out, err } = await orchd(...words);
    assert.equal(code, 2, words.join(' '));
    assert.match(out + err, sentence);
  }
  const nothing = await orchd('doctor', join(root, 'nothing'));
  assert.equal(nothing.code, 2);
  assert.match(nothing.out, /there is no such folder/);
});

test('the process itself ends with the code, and says what is wrong on standard error', () => {
  const { code, out, err } = spawned('doktor');
  assert.deepEqual([code, out], [2, '']);
  assert.match(err, /Did you mean "doctor"/);
});

test('help and version are printed on standard output, with exit code 0', async () => {
  for (const words of [[], ['--help'], ['help'], ['-h']]) {
    const { code, out } = await orchd(...words);
    assert.equal(code, 0);
    assert.match(out, /usage: orchd COMMAND[\s\S]*doctor/);
  }
  for (const words of [
    ['doctor', '--help'],
    ['help', 'doctor'],
  ]) {
    const { code, out } = await orchd(...words);
    assert.equal(code, 0);
    assert.match(out, /usage: orchd doctor DIR \[--json\] \[--salvage NEWDIR\]/);
  }
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8'));
  assert.ok((await orchd('version')).out.startsWith(`orchd ${version} `));
  assert.equal(JSON.parse((await orchd('version', '--json')).out).orchd, version);
});

test('a person at a terminal sees verdicts in colour', async () => {
  const { terminal, written } = fakeTerminal({ isTTY: true });
  await doctor.run({ values: {}, positionals: [await makeFolder('flip')] }, terminal);
  const { out: seen, err } = written;
  assert.equal(err, '');
  assert.ok(seen.includes('\u001b[31mbad \u001b[39m') && seen.includes('\u001b[32mok'));
});

test('a reader that stops early is no failure', async () => {
  const main = join(import.meta.dirname, '../main.ts');
  const command = `"${process.execPath}" "${main}" doctor "${await makeFolder()}" --json | head -n 1`;
  const { stdout, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', command], { encoding: 'utf8' });
  assert.deepEqual([stdout.trimEnd().split('\n').length, stderr], [1, '']);
});
