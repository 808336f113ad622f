/** The table of commands, and what every entry of it keeps to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeTerminal } from '../../test/fakes/terminal.ts';
import { COMMANDS, loadAll } from './commands.ts';
import { type OptionSpec, usageOf } from './options.ts';
import { run } from './run.ts';
import { bashScript } from './text/completion-bash.ts';
import { fishScript } from './text/completion-fish.ts';
import { zshScript } from './text/completion-zsh.ts';

async function said(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const { terminal, written } = fakeTerminal();
  const code = await run(words, terminal);
  return { code, ...written };
}

test('names are unique, summaries are one line without a full stop, usages begin with the call', async () => {
  assert.equal(new Set(COMMANDS.map(({ name }) => name)).size, COMMANDS.length);
  for (const { name, summary, usage } of await loadAll()) {
    assert.match(summary, /^[A-Z][^\n]*[^.]$/);
    assert.ok(usage.startsWith(`orchd ${name}`));
  }
});

test('no line of a help text is wider than 125 characters, and options are aligned with their descriptions', async () => {
  for (const { name, usage } of await loadAll()) {
    for (const line of usage.split('\n')) assert.ok(line.length <= 125, `${name}: ${line}`);
  }
  const usage = usageOf({
    call: 'x',
    about: '',
    options: { a: { type: 'string', help: 'one', value: 'N' }, long: { type: 'boolean', help: 'two' } },
    examples: ['orchd x'],
  });
  assert.equal(usage, 'orchd x\n\n  --a N    one\n  --long   two\n\nExamples:\n  orchd x');
});

test('`help NAME` and `NAME --help` print the same, as do no words and --help; an unknown name is exit 2 with a hint', async () => {
  assert.equal((await said('help', 'jobs')).out, (await said('jobs', '--help')).out);
  assert.equal((await said()).out, (await said('--help')).out);
  const { code, err } = await said('help', 'job');
  assert.equal(code, 2);
  assert.match(err, /there is no command "job"\. Did you mean "jobs"\?/);
  for (const [name, says] of [
    ['ps', /`orchd jobs` lists .*`orchd status`/],
    ['list', /`orchd jobs` lists .*`orchd status`/],
    ['stop', /Ctrl-C stops an `orchd up`/],
    ['down', /Ctrl-C stops an `orchd up`/],
  ] as const)
    assert.match((await said(name)).err, says);
});

test('the help of a command names every option that it takes', async () => {
  for (const { name, options } of await loadAll()) {
    const { code, out } = await said(name, '--help');
    assert.equal(code, 0);
    for (const option of Object.keys(options)) assert.match(out, new RegExp(`--${option}\\b`));
  }
});

/** Calls that are wrong by themselves: no server is asked. */
const WRONG: Record<string, [words: string[], says: RegExp][]> = {
  up: [
    [['now'], /unexpected argument "now"/],
    [['--upstream', 'gpu-box'], /did you mean http:\/\/gpu-box\?\n/],
    [['--port', 'http'], /--port needs a number, not "http"/],
    [['--port', '70000'], /--port needs a whole number from 0 to 65535, not "70000"/],
  ],
  pool: [
    [['now'], /unexpected argument "now"/],
    [['--port', '70000'], /--port needs a whole number from 0 to 65535, not "70000"/],
    [['--cpu-memory', 'half'], /--cpu-memory needs a number, not "half"/],
    [['--id', '../x'], /"pool_id" must match pattern/],
    [['--brain', 'nowhere'], /"brain" and "hf_endpoint" are http or https URLs/],
    [['--data', import.meta.filename], /run\.test\.ts" is not a folder/],
    [['--config', 'no such file'], /"no such file" cannot be read/],
  ],
  worker: [
    [['now'], /unexpected argument "now"/],
    [['--engine', 'lama'], /--engine must be one of .*, not "lama"/],
    [['--slots', '0'], /--slots needs a whole number from 1/],
    [['--id', 'a b'], /"a b" cannot be the name of a worker/],
    [['--pool-manager', 'ftp://x'], /--pool-manager needs an address/],
  ],
  gateway: [
    [['now'], /unexpected argument "now"/],
    [['login'], /the seat is missing/],
    [['login', 'chat-1'], /there is no seat "chat-1" with the driver browser: gateway\.seats .* has none/],
    [['--port', '70000'], /--port needs a whole number from 0 to 65535, not "70000"/],
    [['--host', '0.0.0.0'], /--host: 0\.0\.0\.0 can be reached .* set ORCHD_GATEWAY_TOKEN/],
    [['--data', import.meta.filename], /run\.test\.ts" is not a folder/],
    [['--config', 'no such file'], /"no such file" cannot be read/],
  ],
  submit: [
    [[], /the input is missing/],
    [[''], /the prompt is empty/],
    [[' \n', '--type', 'inference'], /the prompt is empty/],
    [['a', 'b'], /only one prompt can be given: put it in quotes/],
    [['a', '--payload', '1'], /a prompt or --payload, not both/],
    [['--payload', '{n: 1}'], /--payload is not JSON: .* A text must be in quotes to be JSON/],
    [['--payload', '@does/not/exist'], /"does\/not\/exist" cannot be read \(ENOENT\)/],
    [
      ['a', '--priority', 'bach'],
      /--priority must be one of interactive, batch, not "bach"\. Did you mean "batch"\?/,
    ],
    [['a', '--score', 'high'], /--score needs a number, not "high"/],
    [['a', '--score', ''], /--score needs a number/],
    [
      ['a', '--score', '-5'],
      /the option "--score" needs a value; one that begins with - is written --score=-/,
    ],
    [['-q b'], /there is no option "-q"\. A word that begins with - goes behind --\./],
    [['a', '--max-tries', '0'], /--max-tries needs a whole number from 1 to 100/],
    [['a', '--label', 'gpu'], /--label needs NAME=VALUE, not "gpu"/],
    [['a', '--tag', 'k'], /--tag needs NAME=VALUE, not "k"/],
    [['a', '--in', '10'], /--in needs a duration such as 90s, 10m, 2h or 1d, not "10"/],
    [['a', '--at', '08:00'], /--at needs a time with its offset, such as .*, not "08:00"/],
    [['a', '--in', '1s', '--at', '2026-12-01T08:00Z'], /give --in or --at, not both/],
    [['a', '--after-policy', 'any'], /--after-policy must be one of succeeded, ended/],
    [['a', '--patient'], /--patient is only for --file/],
    [['a', '--file', 'x'], /give a prompt or --file, not both/],
    [['--file', 'x', '--key', 'k'], /--key is for a single job, not for --file/],
    [['--file', 'x', '--batch', 'a/b'], /"a\/b" cannot be a batch/],
    [['--file', 'x', '--batch', 'a', '--again'], /give --batch or --again, not both/],
    [['--file', 'does/not/exist'], /"does\/not\/exist" cannot be read \(ENOENT\)/],
    [['--file', import.meta.dirname], /is a folder/],
    [['a', '--url', 'ftp://x'], /"ftp:\/\/x" is not an address/],
  ],
  jobs: [
    [['all'], /unexpected argument "all"/],
    [['--limit', '0'], /--limit needs a whole number from 1/],
    [['--state', 'queued,ended'], /--state must be one of .*, not "ended"/],
  ],
  show: [
    [[], /the job id is missing/],
    [['a', 'b'], /only one job id can be given; "b" is a second one/],
    [['..'], /"\.\." cannot be a job id/],
  ],
  tail: [[['a', '--after', '1'], /"1" is not an event id; event ids look like 1\.7/]],
  cancel: [
    [[], /the job id is missing; give one or more/],
    [['a', '--batch', 'b'], /give ids or filters, not both \("a" is an id\)/],
    [['a', '--yes'], /--yes is only for filters such as --batch/],
    [['--state', 'life'], /--state must be one of/],
  ],
  redrive: [[['--dry-run'], /--dry-run is only for filters/]],
  wait: [
    [[], /the id is missing: give batches or jobs/],
    [['a', '--timeout', '5'], /--timeout needs a duration/],
    [['..'], /"\.\." cannot be a batch/],
  ],
  results: [
    [[], /the batch is missing/],
    [['b', '--format', 'xml'], /--format must be one of jsonl, csv/],
    [['b', '--format', 'csv', '--only-result'], /--only-result is only for --format jsonl/],
    [['b', '--state', 'queued'], /--state must be one of/],
  ],
  batches: [[['--limit', '0'], /--limit needs a whole number from 1/]],
  resolve: [
    [['a'], /the outcome is missing: --as retry\|failed\|succeeded/],
    [['a', '--as', 'retried'], /--as must be one of retry, failed, succeeded/],
    [['a', '--as', 'retry', '--result', '1'], /--result is only for --as succeeded/],
    [['a', '--as', 'succeeded', '--message', 'm'], /--message is only for --as failed/],
    [['a', '--as', 'succeeded', '--result', 'oops'], /--result is not JSON/],
  ],
  token: [
    [[], /the action is missing: create, list, revoke/],
    [['make'], /the action must be one of create, list, revoke/],
    [['create'], /the name is missing/],
    [['create', 'ada'], /the role is missing: --role read\|submit\|operate\|admin\|pool/],
    [
      ['create', 'ada', '--role', 'root'],
      /--role must be one of read, submit, operate, admin, pool, consumer, not "root"/,
    ],
    [['create', 'a b', '--role', 'read'], /"a b" cannot be a name/],
    [['create', 'ada', '--role', 'read', '--tenant', 'UP'], /"UP" cannot be a tenant/],
    [['create', 'gpu', '--role', 'pool', '--tenant', 'lab'], /pools are shared by all tenants/],
    [['list', 'all'], /unexpected argument "all"/],
    [['revoke'], /the token id is missing/],
  ],
  status: [[['now'], /unexpected argument "now"/]],
  models: [[['all'], /unexpected argument "all"/]],
  pools: [[['all'], /unexpected argument "all"/]],
  config: [
    [[], /the action is missing: check, show/],
    [['chek'], /the action must be one of check, show, not "chek"\. Did you mean "check"\?/],
    [['check', 'a', 'b'], /unexpected argument "b"/],
    [['check', 'a', '--config', 'b'], /the file is given twice/],
    [['show', '--port', '70000'], /--port needs a whole number from 0 to 65535/],
    [['check', 'no such file'], /"no such file" cannot be read \(ENOENT\)/],
  ],
  completion: [[['tcsh'], /the shell must be one of bash, zsh, fish, not "tcsh"/]],
};

for (const [name, calls] of Object.entries(WRONG)) {
  test(`a wrong call of ${name} is exit 2, with a sentence and the way to the help`, async () => {
    for (const [words, says] of calls) {
      const { code, out, err } = await said(name, ...words);
      assert.deepEqual([code, out], [2, '']);
      assert.match(err, says);
      assert.ok(err.endsWith(`\nRun \`orchd ${name} --help\` to see how it is used.\n`), err);
    }
  });
}

test('completion scripts quote what would end their quotes', () => {
  const options: Record<string, OptionSpec> = {
    odd: { type: 'string', help: "it's [odd]: very", value: 'A:B' },
  };
  const command = { name: 'x', summary: "it's: x", usage: '', options, run: async () => 0 };
  assert.match(zshScript([command]), /'--odd=\[it'\\''s {2}odd {2} very\]:A B:_files'/);
  assert.match(zshScript([command]), /'x:it'\\''s\\: x'/);
  assert.match(bashScript([command]), /'x --odd'\) ;;/);
  assert.match(fishScript([command]), /-l odd -r -d 'it\\'s \[odd\]: very'$/m);
});
