/**
 * The examples for agent SDKs, run as their first lines say. The AI SDK is a development dependency; the others are
 * installed from the registry, in the versions of test/sdk-programs, into a folder that later runs find again.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { keptFolder } from '../fakes/kept-folder.ts';
import { ANSWER, stage } from './ai-sdk-kit.ts';

const ROOT = join(import.meta.dirname, '../..');
const PACKAGES = join(ROOT, 'test/sdk-programs');
const CALLS = 3;
const INSTALL_TIMEOUT_MS = 300_000;

/** A folder with the packages; undefined where the registry cannot be reached. */
function installed(): string | undefined {
  const lock = readFileSync(join(PACKAGES, 'package-lock.json'));
  const version = createHash('sha256').update(lock).digest('hex').slice(0, 16);
  const folder = join(keptFolder(), `orchd-sdk-programs-${version}`);
  if (existsSync(folder)) return folder;
  // Complete when it has its name: an interrupted installation is never found.
  const begun = mkdtempSync(`${folder}-`);
  for (const file of ['package.json', 'package-lock.json'])
    copyFileSync(join(PACKAGES, file), join(begun, file));
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = spawnSync('npm', args, { cwd: begun, stdio: 'inherit', timeout: INSTALL_TIMEOUT_MS });
  if (status === 0) {
    renameSync(begun, folder);
    return folder;
  }
  rmSync(begun, { recursive: true, force: true });
  return undefined;
}

async function output(t: TestContext, file: string, name: string, url: string): Promise<string> {
  const env = { ...process.env, ORCHD_URL: url, MODEL: 'm' };
  const { stdout } = await promisify(execFile)(process.execPath, [file, name, 'Where are the foxes?'], {
    env,
    signal: t.signal,
  });
  return stdout;
}

test('examples/ai-sdk.ts answers with tools, and again without another call of the model', async (t) => {
  const { provider, brain } = await stage(t);
  const file = join(ROOT, 'examples/ai-sdk.ts');
  for (let start = 0; start < 2; start++) {
    assert.equal(await output(t, file, 'a-run', brain.url), `${ANSWER}\n`);
    provider.assertPaid(CALLS);
  }
});

for (const name of ['openai-agents', 'langgraph'] as const) {
  test(`examples/${name}.mjs answers with tools through /v1, in the session that its header names`, async (t) => {
    const packages = installed();
    if (packages === undefined) return t.skip('its packages cannot be installed from the registry');
    const { provider, brain } = await stage(t);
    const folder = join(packages, 'examples');
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${name}.mjs`);
    copyFileSync(join(ROOT, `examples/${name}.mjs`), file);
    assert.equal(await output(t, file, 'foxes', brain.url), `${ANSWER}\n`);
    provider.assertPaid(CALLS);
    const { jobs } = await brain.api.get('/v2/tasks?session_id=foxes');
    assert.deepEqual(
      jobs.map(({ state }: { state: string }) => state),
      Array.from({ length: CALLS }, () => 'succeeded'),
    );
    const [first, second] = provider.ledger;
    assert.deepEqual(
      first.messages.map(({ role, content }: { role: string; content: unknown }) => [role, content]),
      [
        ['system', 'You look for foxes.'],
        ['user', 'Where are the foxes?'],
      ],
    );
    assert.equal(first.tools[0].function.name, 'look');
    const results = second.messages.filter(({ role }: { role: string }) => role === 'tool');
    assert.deepEqual(
      results.map(({ tool_call_id, content }: Record<string, string>) => [tool_call_id, content]),
      [
        ['c1', 'there is a fox in the wood'],
        ['c2', 'there is a fox in the town'],
      ],
    );
  });
}
