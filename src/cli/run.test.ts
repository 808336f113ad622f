/** The table of commands, and what every entry of it keeps to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Terminal } from './command.ts';
import { COMMANDS, loadAll } from './commands.ts';
import { type OptionSpec, usageOf } from './options.ts';
import { run } from './run.ts';
import { bashScript } from './text/completion-bash.ts';
import { zshScript } from './text/completion-zsh.ts';

async function said(...words: string[]): Promise<{ code: number; out: string; err: string }> {
  let [out, err] = ['', ''];
  const terminal: Terminal = {
    isPerson: false,
    print: (text) => {
      out += `${text}\n`;
    },
    complain: (text) => {
      err += `${text}\n`;
    },
  };
  return { code: await run(words, terminal), out, err };
}

test('names are unique, summaries are one line without a full stop, usages begin with the call', async () => {
  assert.equal(new Set(COMMANDS.map(({ name }) => name)).size, COMMANDS.length);
  for (const { name, summary, usage } of await loadAll()) {
    assert.match(summary, /^[A-Z][^\n]*[^.]$/);
    assert.ok(usage.startsWith(`orchd ${name}`));
  }
});

test('every option says what it is for, and no line of a help is too wide', async () => {
  for (const { name, usage } of await loadAll()) {
    for (const line of usage.split('\n')) assert.ok(line.length <= 125, `${name}: ${line}`);
  }
  const usage = usageOf({
    call: 'x',
    about: '',
    options: { a: { type: 'string', says: 'one', value: 'N' }, long: { type: 'boolean', says: 'two' } },
    examples: ['orchd x'],
  });
  assert.equal(usage, 'orchd x\n\n  --a N    one\n  --long   two\n\nExamples:\n  orchd x');
});

test('help of a command, of nothing and of something that is not there', async () => {
  assert.equal((await said('help', 'jobs')).out, (await said('jobs', '--help')).out);
  assert.equal((await said()).out, (await said('--help')).out);
  const { code, err } = await said('help', 'job');
  assert.equal(code, 2);
  assert.match(err, /there is no command "job"\. Did you mean "jobs"\?/);
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
    [['now'], /nothing is known to do with "now"/],
    [['--port', 'http'], /--port needs a number, not "http"/],
    [['--port', '70000'], /--port needs a whole number from 0 to 65535, not "70000"/],
  ],
  pool: [
    [['now'], /nothing is known to do with "now"/],
    [['--port', '70000'], /--port needs a whole number from 0 to 65535, not "70000"/],
    [['--cpu-memory', 'half'], /--cpu-memory needs a number, not "half"/],
    [['--id', '../x'], /"pool_id" must match pattern/],
    [['--brain', 'nowhere'], /"brain" and "hf_endpoint" are http or https URLs/],
    [['--data', import.meta.filename], /run\.test\.ts" is not a folder/],
    [['--config', 'no such file'], /"no such file" cannot be read/],
  ],
  worker: [
    [['now'], /nothing is known to do with "now"/],
    [['--engine', 'lama'], /--engine is .*, not "lama"/],
    [['--slots', '0'], /--slots needs a whole number from 1/],
    [['--id', 'a b'], /"a b" cannot be the name of a worker/],
    [['--pool-manager', 'ftp://x'], /--pool-manager needs an address/],
  ],
  submit: [
    [[], /what is to be done\?/],
    [[''], /the prompt is empty: there is nothing to ask/],
    [[' \n', '--type', 'inference'], /the prompt is empty/],
    [['a', 'b'], /one prompt: put it in quotes/],
    [['a', '--payload', '1'], /a prompt or --payload, not both/],
    [['--payload', '{n: 1}'], /--payload is no JSON: .* A plain text is JSON in quotes/],
    [['--payload', '@does/not/exist'], /"does\/not\/exist" cannot be read \(ENOENT\)/],
    [['a', '--priority', 'bach'], /--priority is interactive, batch, not "bach"\. Did you mean "batch"\?/],
    [['a', '--score', 'high'], /--score needs a number, not "high"/],
    [['a', '--score', ''], /--score needs a number/],
    [
      ['a', '--score', '-5'],
      /the option "--score" needs a value; one that begins with - is written --score=-/,
    ],
    [['-a b'], /there is no option "-a"\. A word that begins with - goes behind --\./],
    [['a', '--max-tries', '0'], /--max-tries needs a whole number from 1 to 100/],
    [['a', '--label', 'gpu'], /--label needs NAME=VALUE, not "gpu"/],
    [['a', '--url', 'ftp://x'], /"ftp:\/\/x" is no address/],
  ],
  jobs: [
    [['all'], /nothing is known to do with "all"/],
    [['--limit', '0'], /--limit needs a whole number from 1/],
    [['--state', 'queued,ended'], /--state is .*, not "ended"/],
  ],
  show: [
    [[], /which job\? Name it/],
    [['a', 'b'], /one job at a time; "b" is one too many/],
    [['..'], /"\.\." names no job/],
  ],
  tail: [[['a', '--after', '1'], /"1" is no event id; those look like 1\.7/]],
  cancel: [[[], /which job\? Name one or more/]],
  resolve: [
    [['a'], /as what\? --as retry\|failed\|succeeded/],
    [['a', '--as', 'retried'], /--as is retry, failed, succeeded/],
    [['a', '--as', 'retry', '--result', '1'], /--result goes with --as succeeded/],
    [['a', '--as', 'succeeded', '--message', 'm'], /--message goes with --as failed/],
    [['a', '--as', 'succeeded', '--result', 'oops'], /--result is no JSON/],
  ],
  token: [
    [[], /what of it\? create, list, revoke/],
    [['make'], /what to do with a token is create, list, revoke/],
    [['create'], /which name\?/],
    [['create', 'ada'], /which role\? --role read\|submit\|operate\|admin/],
    [['create', 'ada', '--role', 'root'], /--role is read, submit, operate, admin, not "root"/],
    [['create', 'a b', '--role', 'read'], /"a b" cannot be a name/],
    [['create', 'ada', '--role', 'read', '--tenant', 'UP'], /"UP" cannot be a tenant/],
    [['list', 'all'], /nothing is known to do with "all"/],
    [['revoke'], /which token\?/],
  ],
  completion: [[['fish'], /the shell is bash, zsh, not "fish"/]],
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
    odd: { type: 'string', says: "it's [odd]: very", value: 'A:B' },
  };
  const command = { name: 'x', summary: "it's: x", usage: '', options, run: async () => 0 };
  assert.match(zshScript([command]), /'--odd=\[it'\\''s {2}odd {2} very\]:A B:_files'/);
  assert.match(zshScript([command]), /'x:it'\\''s\\: x'/);
  assert.match(bashScript([command]), /'x --odd'\) ;;/);
});
