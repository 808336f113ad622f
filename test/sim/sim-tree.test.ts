/** The folders of the simulated disk behave as those of a real one, and lose names as a bad one does. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { diskErrorCode } from '../../src/kit/env/env.ts';
import { RealDisk } from '../../src/kit/env/real-disk.ts';
import { SimTree } from '../fakes/sim-tree.ts';
import { SeededRandom } from '../fakes/world.ts';

const PATHS = ['/a', '/b', '/a/x', '/a/y', '/b/x', '/b/y', '/a/x/z', '/b/x/z'];
const OPS = [
  'makeFolder',
  'makeNewFolder',
  'exclusive',
  'create',
  'append',
  'plain',
  'rename',
  'rename',
  'remove',
  'removeFolder',
] as const;

type Op = (typeof OPS)[number];

/** The two codes for a folder that is not empty are one and the same. */
const outcomeOf = async (run: () => unknown): Promise<string> => {
  try {
    await run();
    return 'done';
  } catch (error) {
    const code = diskErrorCode(error) ?? String(error);
    return code === 'EEXIST' ? 'ENOTEMPTY' : code;
  }
};

const disk = new RealDisk();

async function doReal(root: string, op: Op, path: string, to: string): Promise<void> {
  if (op === 'makeFolder' || op === 'makeNewFolder' || op === 'remove' || op === 'removeFolder')
    await disk[op](root + path);
  else if (op === 'rename') await disk.rename(root + path, root + to);
  else await (await disk.open(root + path, op)).close();
}

function doSim(tree: SimTree, op: Op, path: string, to: string): void {
  if (op === 'makeFolder' || op === 'makeNewFolder' || op === 'remove' || op === 'removeFolder')
    tree[op](path);
  else if (op === 'rename') tree.rename(path, to);
  else tree.open(path, op);
}

/** Where a file is at the place of a folder, a call may find nothing or fail, in several ways; it changes nothing. */
const WRONG_KIND = ['ENOTDIR', 'EINVAL', 'ERR_FS_EISDIR', 'EISDIR', 'ENOENT'];

test('random operations have the same outcome as on a real disk', async (t) => {
  const random = new SeededRandom(1);
  for (let run = 0; run < 40; run++) {
    const root = fs.mkdtempSync(join(tmpdir(), 'orchd-tree-'));
    t.after(() => fs.rmSync(root, { recursive: true }));
    const tree = new SimTree(() => 0);
    for (let n = 0; n < 60; n++) {
      const [op, path, to] = [random.pick(OPS), random.pick(PATHS), random.pick(PATHS)];
      // Nothing is moved into itself, or onto a folder that it is in.
      if (op === 'rename' && (to.startsWith(`${path}/`) || path.startsWith(`${to}/`))) continue;
      const real = await outcomeOf(() => doReal(root, op, path, to));
      const sim = await outcomeOf(() => doSim(tree, op, path, to));
      if (!WRONG_KIND.includes(real)) assert.equal(sim, real, `${op} ${path} ${to}`);
      const names = fs.readdirSync(root, { recursive: true }).map((name) => `/${name}`);
      assert.deepEqual([...tree.walk()].map((each) => each.path).sort(), names.sort(), `${op} ${path} ${to}`);
    }
  }
});

const never = (): boolean => false;
const pathsOf = (tree: SimTree): string[] => [...tree.walk()].map(({ path }) => path).sort();

/** A disk with the folders /a and /b and the file /a/x, all of it synced. */
function syncedTree(): SimTree {
  const tree = new SimTree(() => 0);
  for (const path of ['/a', '/b']) tree.makeFolder(path);
  tree.open('/a/x', 'create');
  for (const path of ['/', '/a', '/b']) tree.syncFolder(path);
  return tree;
}

test('a power cut takes names that were not synced, a move between two folders until both are', () => {
  for (const synced of [[], ['/a'], ['/b']]) {
    const tree = syncedTree();
    tree.rename('/a/x', '/b/x');
    for (const path of synced) tree.syncFolder(path);
    tree.cutPower(never);
    assert.deepEqual(pathsOf(tree), ['/a', '/a/x', '/b'], `synced: ${synced}`);
  }
  const tree = syncedTree();
  tree.rename('/a/x', '/b/x');
  for (const path of ['/a', '/b']) tree.syncFolder(path);
  tree.cutPower(never);
  assert.deepEqual(pathsOf(tree), ['/a', '/b', '/b/x']);
});

test('a folder that is kept loses the names in it that were not synced', () => {
  const tree = syncedTree();
  tree.makeFolder('/a/new');
  tree.open('/a/new/file', 'create');
  tree.rename('/a/new', '/b/new');
  for (const path of ['/a', '/b']) tree.syncFolder(path);
  tree.cutPower(never);
  assert.deepEqual(pathsOf(tree), ['/a', '/a/x', '/b', '/b/new']);
});

test('a move that is kept keeps the one before it: nothing is in two places or in none', () => {
  const random = new SeededRandom(7);
  for (let run = 0; run < 500; run++) {
    const tree = syncedTree();
    tree.makeFolder('/c');
    tree.syncFolder('/');
    tree.rename('/a/x', '/b/x');
    tree.rename('/b/x', '/c/x');
    for (const path of ['/a', '/b', '/c']) if (random.chance(0.5)) tree.syncFolder(path);
    tree.cutPower((probability) => random.chance(probability));
    assert.equal(pathsOf(tree).filter((path) => path.endsWith('/x')).length, 1);
  }
});

test('a full disk takes no new name and no longer file, but a rename', () => {
  const tree = syncedTree();
  tree.full = true;
  assert.throws(() => tree.open('/a/new', 'exclusive'), { code: 'ENOSPC' });
  assert.throws(() => tree.makeFolder('/c'), { code: 'ENOSPC' });
  tree.rename('/a/x', '/b/x');
});
