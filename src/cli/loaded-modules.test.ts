/** Commands that need no server start fast because they load little: what they may not load is named here. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

/** Prints the address of every module to standard error. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  import { writeSync } from 'node:fs';
  registerHooks({
    load(url, context, next) {
      writeSync(2, 'loads ' + url + '\\n');
      return next(url, context);
    },
  });
`)}`;

const ROOT = join(import.meta.dirname, '../..');

function loadedBy(words: readonly string[]): readonly string[] {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('ORCHD_'));
  const { status, stderr } = spawnSync(
    process.execPath,
    ['--import', HOOK, join(import.meta.dirname, 'main.ts'), ...words],
    { encoding: 'utf8', env: Object.fromEntries(own) },
  );
  assert.ok(status === 0 || status === 2, stderr);
  return Array.from(stderr.matchAll(/^loads (?:file:\/\/)?(.*)$/gm), ([, url = '']) =>
    url.replace(`${ROOT}/`, ''),
  );
}

/** Packages (schemas, YAML, metrics) and the server. What is left of src is small: kit, model, the client, the CLI itself. */
const HEAVY = [
  /node_modules/,
  /^src\/(core|relay|runtime|backends|daemons|telemetry|api|app)\//,
  /^src\/stores\/(?!place-forms)/,
  /^src\/config\/(?!address|variables)/,
];

const CALLS = [
  ['version'],
  ['--help'],
  ['submit', '--help'],
  ['completion', 'bash'],
  ['completion', 'zsh'],
  ['completion', 'fish'],
  ['status', '--help'],
  ['config', '--help'],
  ['explain'],
  ['token', 'list', '--data', join(ROOT, 'no-such-folder')],
  ['nosuch'],
];

for (const words of CALLS) {
  test(`\`orchd ${words.slice(0, 2).join(' ')}\` loads no package and nothing of the server`, () => {
    const loaded = loadedBy(words);
    assert.ok(loaded.includes('src/cli/run.ts'), 'the hook hears of modules');
    assert.deepEqual(
      loaded.filter((url) => HEAVY.some((pattern) => pattern.test(url))),
      [],
    );
  });
}

test('help loads no command', () => {
  assert.deepEqual(
    loadedBy(['--help']).filter((url) => url.startsWith('src/cli/commands/')),
    [],
  );
});
