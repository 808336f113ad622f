/** The command as people and scripts meet it: its words, its exit codes, its JSON. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { loadAll } from '../../src/cli/commands.ts';
import {
  type CliBrain,
  cliBrain,
  type HowToRun,
  jsonLines,
  linesOf,
  orchd,
  type Ran,
  until,
} from './cli-process.ts';

let brain: CliBrain;
const folder = mkdtempSync(join(tmpdir(), 'orchd-cli-'));

before(async () => {
  brain = await cliBrain();
});
after(async () => {
  brain.gate.open();
  await brain.stop();
  rmSync(folder, { recursive: true, force: true });
});

const here = (words: readonly string[], how: HowToRun = {}): Promise<Ran> =>
  orchd(words, { ...how, env: { ORCHD_URL: brain.url, ...how.env } });

async function submitted(request: object): Promise<string> {
  return (await brain.orchestrator.submit(request)).job_id;
}

/** The state is reached, seen from inside the server. */
const reaches = (id: string, state: string): Promise<void> =>
  until(async () => (await brain.orchestrator.get(id)).state === state);

describe('submit', () => {
  test('prints the id alone when a program reads along, and the job has what was asked', async () => {
    const words = ['--job-id', 'asked', '--agent', 'ada', '--session', 's1', '--priority', 'interactive'];
    const more = [
      '--score=-2.5',
      '--key',
      'k1',
      '--max-tries',
      '7',
      '--timeout-ms',
      '5000',
      '--deadline-ms',
      '60000',
    ];
    const { code, out, err } = await here(['submit', 'hello there', ...words, ...more]);
    assert.deepEqual([code, out, err], [0, 'asked\n', '']);
    const job = await brain.orchestrator.wait('asked');
    assert.deepEqual(
      [job.agent, job.session_id, job.priority, job.score, job.key, job.max_tries, job.result],
      ['ada', 's1', 'interactive', -2.5, 'k1', 7, { text: 'hello there' }],
    );
  });

  test('payloads come from the command line, a file and standard input', async () => {
    const file = join(folder, 'payload.json');
    writeFileSync(file, '{"n": 21}');
    const ids = await Promise.all([
      here(['submit', '--type', 'double', '--payload', '{"n": 1}']),
      here(['submit', '--type', 'double', '--payload', `@${file}`]),
      here(['submit', '--type', 'double', '--payload', '-'], { input: '{"n": 4}' }),
      here(['submit', '-'], { input: 'from a pipe' }),
    ]);
    const results = ids.map(async ({ out }) => (await brain.orchestrator.wait(out.trim())).result);
    assert.deepEqual(await Promise.all(results), [2, 42, 8, { text: 'from a pipe' }]);
  });

  test('--json is the answer of the server; a repeat says so', async () => {
    const words = ['submit', '--type', 'quiet', '--job-id', 'twice', '--json'];
    const first = JSON.parse((await here(words)).out);
    assert.deepEqual([first.job_id, first.events_url], ['twice', '/v2/tasks/twice/events']);
    const second = JSON.parse((await here(words)).out);
    assert.equal(second.duplicate_of, 'job_id');
  });

  test('a wrong call is exit 2, with a sentence and the way to the help', async () => {
    const { code, out, err } = await here(['submit', 'a', '--folow']);
    assert.deepEqual([code, out], [2, '']);
    assert.match(err, /there is no option "--folow"\. Did you mean "--follow"\?\nRun `orchd submit --help`/);
  });

  test('what the server refuses as malformed is exit 2, what it refuses for a reason exit 1', async () => {
    const malformed = await here(['submit', 'a', '--agent', 'with space']);
    assert.equal(malformed.code, 2);
    assert.match(malformed.err, /"agent".*\(INVALID_PARAMS\)/);
    await here(['submit', 'one body', '--job-id', 'taken']);
    const conflict = await here(['submit', 'another body', '--job-id', 'taken']);
    assert.equal(conflict.code, 1);
    assert.match(conflict.err, /\(JOB_CONFLICT\)\nUse another job_id/);
  });
});

describe('looking', () => {
  test('jobs is a table, or a JSON object per line; filters, limits and pages are kept', async () => {
    for (let n = 0; n < 5; n++) await submitted({ type: 'quiet', agent: 'lister', job_id: `listed-${n}` });
    await Promise.all([0, 1, 2, 3, 4].map((n) => brain.orchestrator.wait(`listed-${n}`)));
    await brain.orchestrator.wait(
      await submitted({
        type: 'quiet',
        job_id: 'listed-below',
        parent_id: await submitted({ type: 'waits', job_id: 'listed-top' }),
      }),
    );
    const below = await here(['jobs', '--root', 'listed-top', '--json']);
    assert.deepEqual(
      jsonLines(below.out).map((job) => job['job_id']),
      ['listed-below'],
    );
    const [table, two, all, none, states] = await Promise.all([
      here(['jobs', '--agent', 'lister']),
      here(['jobs', '--agent', 'lister', '--limit', '2']),
      here(['jobs', '--agent', 'lister', '--limit', '2', '--all', '--json', '--state', 'succeeded,dead']),
      here(['jobs', '--agent', 'nobody']),
      here(['jobs', '--state', 'queue']),
    ]);
    const lines = linesOf(table.out);
    assert.match(lines[0]!, /^ID +STATE +TYPE +PRIORITY +AGE +WHERE OR WHY$/);
    assert.match(lines[1]!, /^listed-4 +succeeded +quiet +batch +.* +fast, took /);
    assert.equal(lines.length, 6);
    assert.deepEqual([linesOf(two.out).length, two.code], [3, 0]);
    assert.match(two.err, /more than these 2: --limit N/);
    assert.deepEqual(
      jsonLines(all.out).map((job) => job['job_id']),
      ['listed-4', 'listed-3', 'listed-2', 'listed-1', 'listed-0'],
    );
    assert.deepEqual([none.code, none.out, none.err], [0, '', 'no jobs match.\n']);
    assert.equal(states.code, 2);
    assert.match(states.err, /--state must be one of .*, not "queue"\. Did you mean "queued"\?/);
  });

  test('show has the attempts, the error with what to do next, and no control characters', async () => {
    const id = await submitted({ type: 'fail', key: 'failing' });
    await brain.orchestrator.wait(id);
    const { code, out } = await here(['show', id]);
    assert.equal(code, 0);
    assert.match(out, /^state +dead \(failed\)$/m);
    assert.match(out, /^ {2}1 {2}fast {2}failed, .* the model said ␛\[31mno \(EXECUTION_FAILED\)$/m);
    assert.match(out, /^error {2}the model said .*\n +Correct the job/m);
    assert.match(out, new RegExp(`^orchd redrive ${id} queues it again\\.$`, 'm'));
    const json = JSON.parse((await here(['show', id, '--json'])).out);
    assert.deepEqual([json.state, json.error.code, json.attempts.length], ['dead', 'EXECUTION_FAILED', 1]);
  });

  test('show has the result', async () => {
    const text = await submitted({ prompt: 'shown' });
    const value = await submitted({ type: 'double', payload: { n: 3 } });
    await Promise.all([brain.orchestrator.wait(text), brain.orchestrator.wait(value)]);
    const [first, second] = await Promise.all([here(['show', text]), here(['show', value])]);
    assert.match(first.out, /^result\nshown$/m);
    assert.match(second.out, /^result\n6$/m);
  });

  test('explain says in a sentence why a job waits, or that it does not', async () => {
    const waits = await submitted({ type: 'nothing-runs-this', model: 'none' });
    const done = await submitted({ type: 'quiet' });
    await brain.orchestrator.wait(done);
    const [first, second, json] = await Promise.all([
      here(['explain', waits]),
      here(['explain', done]),
      here(['explain', waits, '--json']),
    ]);
    assert.match(
      first.out,
      new RegExp(`^${waits} waits: no backend runs type "nothing-runs-this", model "none"\\.\n`),
    );
    assert.match(first.out, /Start a backend that can run it/);
    assert.match(
      second.out,
      new RegExp(`^${done} does not wait: it has ended \\(succeeded\\), .* ago\\.\n$`),
    );
    assert.equal(JSON.parse(json.out).waiting.code, 'no_backend');
  });

  test('a job that does not exist is exit 1, one that cannot exist exit 2', async () => {
    const commands = ['show', 'explain', 'tail', 'cancel', 'redrive'];
    const all = await Promise.all(commands.map((command) => here([command, 'missing'])));
    for (const [at, { code, out, err }] of all.entries()) {
      const command = commands[at]!;
      assert.deepEqual([code, out], [1, ''], command);
      assert.match(err, /^orchd \w+(?: missing)?: there is no job .*\(NOT_FOUND\)\nCheck the id/, command);
    }
    const [never, cannot] = await Promise.all([here(['show', 'not an id']), here(['show', '..'])]);
    assert.deepEqual([never.code, cannot.code], [1, 2]);
  });
});

describe('orders', () => {
  test('cancel takes many; each is told, and one that fails does not stop the others', async () => {
    const [a, b] = [await submitted({ type: 'unrun' }), await submitted({ type: 'unrun' })];
    const ended = await submitted({ type: 'quiet' });
    await brain.orchestrator.wait(ended);
    const { code, out, err } = await here(['cancel', a, 'missing', ended, b]);
    assert.equal(code, 1);
    assert.deepEqual(linesOf(out), [
      `${a} is cancelled.`,
      `${ended} had already ended (succeeded).`,
      `${b} is cancelled.`,
    ]);
    assert.match(err, /orchd cancel missing: there is no job .* \(NOT_FOUND\)/);
    const again = await here(['cancel', a, '--json']);
    assert.deepEqual([again.code, JSON.parse(again.out).state], [0, 'cancelled']);
  });

  test('redrive queues dead jobs again and refuses others', async () => {
    const id = await submitted({ type: 'fail' });
    await brain.orchestrator.wait(id);
    const { code, out } = await here(['redrive', id]);
    assert.equal(code, 0);
    assert.match(out, new RegExp(`^${id} is (queued|claimed|running|dead) again`));
    await reaches(id, 'dead');
    assert.equal((await brain.orchestrator.get(id)).attempts.at(-1)?.attempt, 2);
    const done = await submitted({ type: 'quiet' });
    await brain.orchestrator.wait(done);
    const refused = await here(['redrive', done]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /only a dead job can be redriven.*\(ILLEGAL_STATE\)/);
  });

  test('resolve settles what is unknown, in each of its ways', async () => {
    const ids = await Promise.all(
      ['x', 'y'].map((name) => submitted({ type: 'forgotten', job_id: `stale-${name}` })),
    );
    for (const id of ids) await reaches(id, 'stale');
    const shown = await here(['explain', 'stale-x']);
    assert.match(shown.out, /backend "forgetful" cannot say .*\norchd resolve stale-x --as/);
    const good = await here(['resolve', 'stale-x', '--as', 'succeeded', '--result', '{"found": true}']);
    assert.deepEqual([good.code, good.out], [0, 'stale-x is resolved: it is succeeded now.\n']);
    assert.deepEqual((await brain.orchestrator.get('stale-x')).result, { found: true });
    const bad = await here(['resolve', 'stale-y', '--as', 'failed', '--message', 'lost for good', '--json']);
    assert.deepEqual([bad.code, JSON.parse(bad.out).error.message], [0, 'lost for good']);
    const twice = await here(['resolve', 'stale-x', '--as', 'retry']);
    assert.deepEqual([twice.code, /ILLEGAL_STATE/.test(twice.err)], [1, true]);
  });
});

describe('where there is no server', () => {
  test('one sentence and exit 2, for every command that needs one', async () => {
    const url = 'http://127.0.0.1:2';
    const calls = [
      ['submit', 'a'],
      ['submit', 'a', '--follow'],
      ['jobs'],
      ['show', 'a'],
      ['explain', 'a'],
      ['tail', 'a'],
      ['cancel', 'a', 'b'],
      ['redrive', 'a'],
      ['resolve', 'a', '--as', 'retry'],
    ];
    const all = await Promise.all(calls.map((words) => orchd([...words, '--url', url])));
    for (const [at, { code, out, err }] of all.entries()) {
      const said = `orchd ${calls[at]![0]}: nothing answers at ${url} (UNREACHABLE)\nStart the server with \`orchd up\`, or give its address with --url or ORCHD_URL.\n`;
      assert.deepEqual([code, out, err], [2, '', said]);
    }
  });

  test('an address that is none, a host that is none, and a server that is not orchd', async () => {
    const other = createServer((_request, response) => response.end('<html>')).listen(0, '127.0.0.1');
    const { port } = await new Promise<AddressInfo>((resolve) => {
      other.on('listening', () => resolve(other.address() as AddressInfo));
    });
    const [none, stranger, token] = await Promise.all([
      orchd(['jobs', '--url', 'localhost:8080']),
      orchd(['jobs', '--url', `http://127.0.0.1:${port}`]),
      orchd(['jobs', '--token', 'with space']),
    ]);
    other.close();
    assert.deepEqual([none.code, stranger.code, token.code], [2, 2, 2]);
    assert.match(none.err, /"localhost:8080" is not an address such as http/);
    assert.match(stranger.err, /what answers at .* is not orchd/);
    assert.match(token.err, /the token contains characters that no token has/);
  });
});

/** Runs a script in fish, which cannot read it from a socket: Node gives its children no pipes. */
function inFish(script: string, ...options: string[]) {
  const file = join(folder, 'script.fish');
  writeFileSync(file, script);
  return spawnSync('fish', [...options, file], { encoding: 'utf8', env: { ...process.env, HOME: folder } });
}

describe('help and completion', () => {
  test('the help lists every command, and every command has an example', async () => {
    const { code, out } = await orchd(['--help']);
    assert.equal(code, 0);
    for (const { name, summary, usage } of await loadAll()) {
      assert.match(out, new RegExp(`^  ${name} +${summary.slice(0, 10)}`, 'm'));
      assert.match(usage, new RegExp(`^Examples:\n.*orchd ${name}`, 'm'), name);
    }
  });

  test('the scripts are well-formed, and offer commands, options, choices and words', async () => {
    const bash = await orchd(['completion', 'bash']);
    const zsh = await orchd(['completion', 'zsh']);
    const check = (shell: string, input: string) => spawnSync(shell, ['-n'], { input, encoding: 'utf8' });
    assert.deepEqual([check('bash', bash.out).status, check('bash', bash.out).stderr], [0, '']);
    // Enough of it is common to both shells for bash to find a quote that does not close.
    assert.deepEqual([check('bash', zsh.out).status, check('bash', zsh.out).stderr], [0, '']);
    const fish = await orchd(['completion', 'fish']);
    // Not every machine has the other shells.
    for (const ownCheck of [check('zsh', zsh.out), inFish(fish.out, '-n')])
      if (ownCheck.error === undefined) assert.deepEqual([ownCheck.status, ownCheck.stderr], [0, '']);
    for (const { name, options } of await loadAll()) {
      for (const option of Object.keys(options))
        for (const [script, form] of [
          [zsh.out, `'\\*?--${option}[=[]`],
          [fish.out, `= ${name}' -l ${option} `],
        ] as const)
          assert.match(script, new RegExp(form), name);
    }
  });

  test('fish completes, on a machine that has it', async (t) => {
    if (spawnSync('fish', ['--version']).error) return t.skip('there is no fish here');
    const { out } = await orchd(['completion', 'fish']);
    const offered = (line: string): string[] => {
      const { stdout, stderr } = inFish(`${out}\ncomplete -C 'orchd ${line}'`, '--no-config');
      assert.equal(stderr, '');
      return linesOf(stdout).map((each) => each.split('\t')[0] ?? '');
    };
    assert.deepEqual(offered('re'), ['redrive', 'resolve', 'results']);
    assert.deepEqual(offered('submit --ti'), ['--timeout-ms']);
    assert.deepEqual(offered('submit prompt --priority ').sort(), ['batch', 'interactive']);
    assert.deepEqual(offered('token '), ['create', 'list', 'revoke']);
    assert.deepEqual(offered('jobs --state s').sort(), ['stale', 'succeeded']);
    assert.deepEqual(offered('help re'), ['redrive', 'resolve', 'results']);
    assert.equal(offered('').length, (await loadAll()).length + 1);
    return undefined;
  });

  test('bash completes', async () => {
    const { out } = await orchd(['completion', 'bash']);
    const offered = (...words: string[]): string[] => {
      const call = `COMP_WORDS=(orchd ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _orchd`;
      const input = `${out}\n${call}; printf '%s\\n' "\${COMPREPLY[@]}"`;
      return linesOf(spawnSync('bash', ['-s'], { input, encoding: 'utf8' }).stdout);
    };
    assert.deepEqual(offered('re'), ['reload', 'replay', 'results', 'redrive', 'resolve', 'resume']);
    assert.deepEqual(offered('results', '--format', ''), ['jsonl', 'csv']);
    assert.deepEqual(offered('submit', '--ti'), ['--timeout-ms']);
    assert.deepEqual(offered('submit', 'prompt', '--priority', ''), ['interactive', 'batch']);
    assert.deepEqual(offered('token', ''), ['create', 'list', 'revoke']);
    assert.deepEqual(offered('submit', ''), []);
    assert.deepEqual(offered('submit', '--model', ''), []);
    assert.deepEqual(offered('jobs', '--state', 's'), ['stale', 'succeeded']);
    assert.equal(offered('').length, (await loadAll()).length + 1);
  });
});
