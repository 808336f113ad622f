/** Modules on every store, and on a cluster: the leader alone runs them, and what was handled is not handled again. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { ModuleView } from '../../src/model/http/modules.ts';
import { type TestServer, testMariaDb } from '../fakes/mariadb.ts';
import { moduleSite, until } from '../fakes/module-kit.ts';
import { Cluster } from './cluster-kit.ts';
import { LASTING, onStores, start } from './flow-kit.ts';
import type { ServerProcess } from './server-process.ts';

const linesIn = (path: string): string[] =>
  existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1) : [];

/**
 * A module that proposes a job for each file of a folder, writes down which process scans, and then the end of each job.
 * Its jobs have the same payload as their key.
 */
const sourceOf = (folder: string): string => `
import { appendFileSync, readdirSync } from 'node:fs';
appendFileSync(${JSON.stringify(join(folder, 'runs'))}, process.argv[2] + ' ' + process.ppid + '\\n');
export const scan = () => readdirSync(${JSON.stringify(join(folder, 'work'))}).map((key) => ({ key, type: 'work', payload: key }));
export const handle = (job) => appendFileSync(${JSON.stringify(join(folder, 'handled'))}, job.key + '\\n');`;

const put = (folder: string, ...names: readonly string[]): void => {
  mkdirSync(join(folder, 'work'), { recursive: true });
  for (const name of names) writeFileSync(join(folder, 'work', name), '');
};

onStores(
  '[FANO-10] the same proposals, and ends that were handled, change nothing after restarts and checkpoints',
  LASTING,
  async (t, data) => {
    const site = moduleSite(t);
    const { folder } = site;
    site.brain = (backends) => start(t, { data, backends });
    const config = site.file('finder', sourceOf(folder), { interval_sec: 0.05 });
    const names: string[] = [];
    for (const round of ['a', 'b', 'c']) {
      const fresh = [`${round}1`, `${round}2`, `${round}3`];
      names.push(...fresh);
      put(folder, ...fresh);
      await site.start(config);
      await until(() => site.view('finder').handled >= fresh.length);
      const { proposals, handle_error } = await site.scanned('finder', site.view('finder').scans + 1);
      assert.deepEqual([proposals.accepted, proposals.refused, handle_error], [fresh.length, 0, undefined]);
      assert.ok(proposals.known >= names.length - fresh.length);
      if (round === 'b') await site.orchestrator.checkpoint();
      await site.stop();
      assert.deepEqual(linesIn(join(folder, 'handled')).sort(), names, 'each end was handled once');
    }
  },
);

let server: Promise<TestServer> | undefined;
after(async () => (await server)?.stop());

test('[FANO-10] on a cluster the leader alone polls modules, and another one goes on where the mark of handled ends is', async (t) => {
  server ??= testMariaDb();
  const cluster = await Cluster.on(t, await server);
  const { folder } = cluster;
  put(folder, 'a', 'b', 'c');
  const file = join(folder, 'finder.mjs');
  writeFileSync(file, sourceOf(folder));
  const modules = [{ name: 'finder', file, interval_sec: 0.1 }];
  const begin = (node: string) => cluster.start(node, { config: { ...cluster.config(node), modules } });
  const viewOf = async (node: ServerProcess): Promise<ModuleView> => {
    const { modules: views } = await cluster.get<{ modules: ModuleView[] }>(node, '/v2/modules');
    return views[0] as ModuleView;
  };
  const runners = (): string[] => linesIn(join(folder, 'runs')).map((line) => line.split(' ')[1] ?? '');

  const first = await begin('n0');
  await cluster.leads(first);
  const second = await begin('n1');
  await until(async () => (await viewOf(first)).handled === 3);
  const { scans } = await viewOf(first);
  // The other node waits, and has its answers from the leader.
  await until(async () => (await viewOf(second)).scans >= scans + 3);
  assert.deepEqual([...new Set(runners())], [String(first.child.pid)]);

  await first.kill();
  put(folder, 'd');
  await cluster.leads(second);
  await until(async () => (await viewOf(second)).handled === 1);
  await until(async () => (await viewOf(second)).scans >= 3);
  assert.deepEqual(linesIn(join(folder, 'handled')).sort(), ['a', 'b', 'c', 'd']);
  const { proposals } = await viewOf(second);
  assert.deepEqual([proposals.accepted, proposals.refused], [1, 0]);
  assert.equal(runners().at(-1), String(second.child.pid));
  await cluster.trailIsWhole();
});
