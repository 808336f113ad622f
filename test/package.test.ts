/** The package as a user gets it: built, packed, unpacked beside its two dependencies, and imported. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

const root = join(import.meta.dirname, '..');
const folder = mkdtempSync(join(tmpdir(), 'orchd-package-'));
const project = join(folder, 'project');
const installed = join(project, 'node_modules', 'orchd');
let packed: string[] = [];

after(() => rmSync(folder, { recursive: true, force: true }));

const run = (cwd: string, command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

function compile(file: string): void {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2025'];
  run(project, process.execPath, compiler, ...options, file);
}

/** A copy is built, so that neither a dist/ in use nor a second run of this test is in the way. */
function copySources(): string {
  const copy = join(folder, 'copy');
  mkdirSync(copy);
  const parts = [
    'src',
    'scripts',
    'package.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'config.example.yaml',
  ];
  for (const part of [...parts, 'LICENSE']) cpSync(join(root, part), join(copy, part), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  return copy;
}

before(() => {
  const copy = copySources();
  run(copy, process.execPath, 'scripts/build.ts');
  run(copy, 'npm', 'pack', '--ignore-scripts', '--offline', '--loglevel=error', '--pack-destination', folder);
  const { name, version } = JSON.parse(readFileSync(join(copy, 'package.json'), 'utf8'));
  const tarball = join(folder, `${name}-${version}.tgz`);
  packed = run(folder, 'tar', '-tzf', tarball).trim().split('\n');
  mkdirSync(installed, { recursive: true });
  run(folder, 'tar', '-xzf', tarball, '-C', installed, '--strip-components=1');
  for (const dependency of ['croner', 'prom-client', 'typebox', 'yaml']) {
    symlinkSync(join(root, 'node_modules', dependency), join(project, 'node_modules', dependency));
  }
});

test('the package holds the built code and the example, and neither tests nor sources', () => {
  for (const wanted of ['package/dist/index.js', 'package/dist/index.d.ts', 'package/config.example.yaml']) {
    assert.ok(packed.includes(wanted), `${wanted} is missing`);
  }
  assert.deepEqual(
    packed.filter((path) => /\.test\.|\/test\/|(?<!\.d)\.ts$/.test(path)),
    [],
  );
});

test('its dependencies are the ones it is given here', () => {
  const { dependencies } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  assert.deepEqual(Object.keys(dependencies), ['croner', 'prom-client', 'typebox', 'yaml']);
});

test('createOrchestrator can be imported from it', () => {
  const code = "import { createOrchestrator } from 'orchd'; console.log(typeof createOrchestrator);";
  const printed = run(project, process.execPath, '--input-type=module', '--eval', code);
  assert.equal(printed.trim(), 'function');
});

test('orchd/consumer can be imported from it, and its heartbeats have the file of their thread', () => {
  const code = "import { Consumer } from 'orchd/consumer'; console.log(typeof Consumer);";
  const printed = run(project, process.execPath, '--input-type=module', '--eval', code);
  assert.equal(printed.trim(), 'function');
  assert.ok(packed.includes('package/dist/consumer/heartbeat-main.js'));
});

test('orchd/ai-sdk can be imported from it beside the package `ai`, with its types', () => {
  for (const peer of ['ai', '@ai-sdk']) {
    symlinkSync(join(root, 'node_modules', peer), join(project, 'node_modules', peer));
  }
  const code =
    "import { orchd } from 'orchd/ai-sdk'; console.log(orchd({ run: 'r' })('m').specificationVersion);";
  assert.equal(run(project, process.execPath, '--input-type=module', '--eval', code).trim(), 'v4');
  const lines = [
    "import { generateText } from 'ai';",
    "import { orchd } from 'orchd/ai-sdk';",
    "export const answer = generateText({ model: orchd({ run: 'r' })('m'), prompt: 'Hello' });",
    '// @ts-expect-error: a run is a text; were the types missing, this line would pass',
    'orchd({ run: 7 });',
  ];
  writeFileSync(join(project, 'asks.mts'), lines.join('\n'));
  compile('asks.mts');
});

test('its types reach a TypeScript project', () => {
  const lines = [
    "import { createOrchestrator } from 'orchd';",
    'export const same: typeof createOrchestrator = createOrchestrator;',
    '// @ts-expect-error: a function is no number; were the types missing, this line would pass',
    'export const wrong: number = createOrchestrator;',
  ];
  writeFileSync(join(project, 'uses.mts'), lines.join('\n'));
  compile('uses.mts');
});
