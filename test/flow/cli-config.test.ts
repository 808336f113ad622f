/** `orchd config`: what is wrong with a configuration before it is used, and what holds where nothing was set. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { jsonLines, linesOf, orchd } from './cli-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'orchd-config-'));
after(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function fileOf(text: string): string {
  const path = join(folder, `${++files}.yaml`);
  writeFileSync(path, text);
  return path;
}

const DATA = ['--data', join(folder, 'data')];

describe('check', () => {
  test('a good configuration is exit 0, one without a file too', async () => {
    const file = fileOf('orchestrator: { queue_capacity: 5 }\n');
    const [withFile, without] = await Promise.all([
      orchd(['config', 'check', file, ...DATA]),
      orchd(['config', 'check', ...DATA]),
    ]);
    assert.deepEqual([withFile.code, withFile.out], [0, `${file}: orchd up can start with it\n`]);
    assert.deepEqual([without.code, without.err], [0, '']);
  });

  test('every fault is told with its place and the nearest known name, more than `up` shows too', async () => {
    const wrong = Array.from({ length: 60 }, (_, n) => `  unknown_${n}: 1`);
    const file = fileOf(
      ['orchestrator:', '  queue_polcy: reject', '  retry: { max_tries: many }', ...wrong].join('\n'),
    );
    const { code, out } = await orchd(['config', 'check', file, ...DATA]);
    assert.equal(code, 1);
    assert.equal(linesOf(out).length, 63);
    assert.ok(
      out.includes(`fault: ${file}:2:3: orchestrator.queue_polcy: unknown key; did you mean queue_policy?\n`),
    );
    assert.match(out, /:3:23: orchestrator\.retry\.max_tries: expected a whole number/);
    assert.match(out, /: 62 faults\n$/);
  });

  test('what a start would refuse is a fault, what would not work is a warning', async () => {
    const here = join(folder, 'file-instead-of-folder');
    writeFileSync(here, '');
    const start = ['config', 'check', '--json'];
    const cases: [words: string[], text: string, type: string, path: string, says: RegExp][] = [
      [['--host', '0.0.0.0', ...DATA], '', 'fault', 'orchestrator.bind_addr', /callers need a token/],
      [
        DATA,
        'orchestrator: { bind_addr: "0.0.0.0:1" }',
        'fault',
        'orchestrator.bind_addr',
        /callers need a token/,
      ],
      [DATA, 'store: mariadb', 'fault', 'store', /needs its address: set mariadb\.url/],
      [DATA, 'limits: [{ scope: nonsense }]', 'fault', 'limits', /"nonsense" is not the name of a scope/],
      [
        DATA,
        'backends: { upstreams: [{ url: "http://h:1" }, { url: "http://h:2", key_env: NOT_SET }] }',
        'fault',
        'backends.upstreams[1].key_env',
        /the variable NOT_SET is not set/,
      ],
      [
        ['--port', '18999', ...DATA],
        'backends: { upstreams: [{ url: "http://127.0.0.1:18999" }] }',
        'fault',
        'backends.upstreams[0].url',
        /this server itself/,
      ],
      [
        DATA,
        'agents: [{ name: a, model: m, tools: [curent_time] }]',
        'fault',
        'agents[0].tools',
        /the agent "a": there is no tool "curent_time"; did you mean "current_time"\?/,
      ],
      [
        DATA,
        'agents: [{ name: b, model: m }, { name: a, model: m, tools: [read_file] }]',
        'fault',
        'agents[1].tools',
        /the agent "a": the tool "read_file" needs the setting files\.root of its agent/,
      ],
      [
        DATA,
        'agents: [{ name: a, model: m }, { name: a, model: m }]',
        'fault',
        'agents[1]',
        /two agents have the name "a"/,
      ],
      [
        DATA,
        'agents: [{ name: a, model: m, tools: [read_file], files: { root: /no/such/secret } }]',
        'fault',
        'agents[0]',
        /the agent "a": the root of the file tools must be a folder/,
      ],
      [['--data', here], '', 'fault', 'orchestrator.state.checkpoint_dir', /is not a folder/],
      [
        ['--data', join(here, 'x')],
        '',
        'fault',
        'orchestrator.state.checkpoint_dir',
        /cannot be used \(ENOTDIR\)/,
      ],
      [
        DATA,
        'backends: { commands: [{ name: a, types: { t: { argv: [/no/such/secret] } } }] }',
        'warning',
        'backends.commands[0].types.t.argv',
        /names a file that does not exist/,
      ],
      [
        DATA,
        'agents: [{ name: a, model: m, tools: [x], commands: [{ name: x, description: d, argv: [ls], folder: /no/secret }] }]',
        'warning',
        'agents[0].commands[0].folder',
        /names a folder that does not exist/,
      ],
      [
        DATA,
        'backends: { commands: [{ name: demo, types: {} }] }',
        'warning',
        'backends',
        /two backends have the name/,
      ],
    ];
    for (const [words, text, type, path, says] of cases) {
      const { code, out } = await orchd([...start, fileOf(text), ...words]);
      const [found, summary] = jsonLines(out);
      assert.deepEqual([found?.['type'], found?.['path']], [type, path], out);
      assert.match(String(found?.['message']), says);
      assert.deepEqual([code, summary?.['ok']], type === 'fault' ? [1, false] : [0, true]);
      assert.ok(!out.includes('secret'));
    }
  });

  test('a token file that a server would refuse is a fault', async () => {
    const data = join(folder, 'with-tokens');
    mkdirSync(data);
    writeFileSync(join(data, 'tokens.json'), '{');
    const { code, out } = await orchd(['config', 'check', '--host', '0.0.0.0', '--data', data]);
    assert.equal(code, 1);
    assert.match(out, /one fault\n$/);
  });

  test('variables count, and one that has no effect is a warning', async () => {
    const env = { ORCHD_LOG_LEVEL: 'loud', ORCHD_PORT: '9000' };
    const { code, out } = await orchd(['config', 'check', ...DATA], { env });
    assert.equal(code, 1);
    assert.match(out, /^fault: ORCHD_LOG_LEVEL: log\.level: expected one of/m);
    assert.match(out, /^warning: ORCHD_PORT is not a variable of orchd .*--port 9000$/m);
  });
});

describe('show', () => {
  const secrets = [
    'pools: { token: hidden }',
    'mariadb: { url: "mariadb://u:hidden@h/d" }',
    'backends: { commands: [{ name: a, types: { t: { argv: [x], env: { KEY: hidden } } } }] }',
  ].join('\n');

  test('every setting is there with its default, and can be read as a configuration again', async () => {
    const { code, out } = await orchd(['config', 'show']);
    assert.equal(code, 0);
    // Only a key that has an effect as soon as it is set is a comment.
    assert.deepEqual(out.match(/^.*#.*$/gm), ['  # url: http://localhost:8000']);
    assert.deepEqual(loadConfig({ text: out }), loadConfig());
  });

  test('what is not a default says where it comes from, and secrets are not shown', async () => {
    const file = fileOf(`orchestrator:\n  queue_capacity: 50\n${secrets}\n`);
    const env = { ORCHD_LOG_LEVEL: 'debug', ORCHD_DATA: '/from/variable' };
    const { code, out } = await orchd(['config', 'show', file, '--port', '9000'], { env });
    assert.equal(code, 0);
    for (const line of [
      `  queue_capacity: 50  # ${file}:2:19`,
      '  level: debug  # ORCHD_LOG_LEVEL',
      '  bind_addr: 127.0.0.1:9000  # --port',
      '    checkpoint_dir: /from/variable  # ORCHD_DATA',
      '  queue_policy: reject',
    ])
      assert.ok(out.includes(`${line}\n`), line);
    assert.ok(!out.includes('hidden'));
    const json = await orchd(['config', 'show', file, '--json'], { env });
    assert.ok(!json.out.includes('hidden'));
    const { config, origins } = JSON.parse(json.out);
    assert.equal(config.pools.token, '[redacted]');
    assert.equal(origins['log.level'], 'ORCHD_LOG_LEVEL');
    assert.equal(parse(out).orchestrator.queue_capacity, 50);
  });

  test('a configuration with faults is refused as `up` refuses it', async () => {
    const { code, out, err } = await orchd(['config', 'show', fileOf('stor: journal')]);
    assert.deepEqual([code, out], [2, '']);
    assert.match(err, /unknown key; did you mean store\?/);
  });
});
