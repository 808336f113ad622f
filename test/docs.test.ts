import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisesOf } from '../scripts/docs/requirements.ts';
import { PAGES, renderErrors } from '../scripts/docs.ts';
import { COMMANDS } from '../src/cli/commands.ts';
import { ERRORS } from '../src/model/errors.ts';
import { REASONS } from '../src/model/reasons.ts';
import { LAYOUT } from './architecture/layout.ts';

const root = join(import.meta.dirname, '..');

for (const [path, render] of Object.entries(PAGES)) {
  test(`${path} is what the code says`, () => {
    const written = readFileSync(join(root, path), 'utf8');
    assert.equal(written, render(), 'run: npm run docs');
  });
}

test('the error page has one row per code and one per reason', () => {
  const rows = renderErrors()
    .split('\n')
    .filter((line) => line.startsWith('| `'));
  assert.deepEqual(
    rows.map((row) => row.split('`')[1]),
    [...Object.keys(ERRORS), ...Object.keys(REASONS)],
  );
});

test('the page of the command line has one row per command, in the order of the help', () => {
  const rows = readFileSync(join(root, 'docs/cli.md'), 'utf8').matchAll(/^\| `orchd (\S+)` \|/gm);
  assert.deepEqual(
    Array.from(rows, ([, name]) => name),
    COMMANDS.map(({ name }) => name),
  );
});

/** Ids in the sample below are put together, so that no list of ids takes them for real ones. */
const OPEN = '[';

test('a requirement is found with its promise wherever a title names it', () => {
  const found = promisesOf(
    'a.test.ts',
    `describe('a job', () => {
       for (const store of stores) test(\`${OPEN}WISH-1] ${OPEN}WISH-2.3] ends (\${store})\`, () => {});
       onStores('${OPEN}WISH-4] waits', STORES, async () => { await call('${OPEN}WISH-5] is no title'); });
       test('names none', () => {});
     });`,
  );
  assert.deepEqual(
    found.map(({ id, promise }) => [id, promise]),
    [
      ['WISH-1', 'a job: ends (…)'],
      ['WISH-2.3', 'a job: ends (…)'],
      ['WISH-4', 'a job: waits'],
    ],
  );
});

/** Every page that people read, by path. */
const pages = new Map(
  globSync(['*.md', 'docs/**/*.md', 'test/**/*.md'], { cwd: root }).map((path) => [
    path,
    readFileSync(join(root, path), 'utf8'),
  ]),
);

/** What a pattern finds in the pages and `exists` denies, as `page: match`. */
const missing = (pattern: RegExp, exists: (found: string, page: string) => boolean): string[] =>
  [...pages].flatMap(([page, text]) =>
    [...text.matchAll(pattern)]
      .map((match) => match[1]!)
      .filter((found) => !exists(found, page))
      .map((found) => `${page}: ${found}`),
  );

test('links between pages lead to files that exist', () => {
  const LINK = /\]\((?!https?:|#)([^)#\s]+)/g;
  assert.deepEqual(
    missing(LINK, (to, page) => existsSync(join(root, dirname(page), to))),
    [],
  );
});

test('source files that pages name exist; a name may leave out the folders before it', () => {
  const files = globSync('{src,test,bench,scripts,examples}/**/*', { cwd: root }).map((path) => `/${path}`);
  const NAMED = /`([\w./-]+\.(?:test\.)?ts)`/g;
  assert.deepEqual(
    missing(NAMED, (name) => files.some((path) => path.endsWith(`/${name}`))),
    [],
  );
});

test('paths from the root that pages name exist; of the layout also folders that are still empty', () => {
  const planned = LAYOUT.folders.order.map((folder) => `src/${folder}`);
  assert.deepEqual(
    missing(
      /`((?:src|test|docs|scripts|bench)\/[\w./-]+)`/g,
      (path) => existsSync(join(root, path)) || planned.includes(path),
    ),
    [],
  );
});

test('npm scripts that pages call exist', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  assert.deepEqual(
    missing(/npm run ([\w:]+)/g, (name) => Object.hasOwn(scripts, name)),
    [],
  );
});

test('commands of orchd that pages call exist', () => {
  const CALL = /(?:^orchd|`orchd|npm run orchd --) ([a-z]+)/gm;
  assert.deepEqual(
    missing(CALL, (word) => COMMANDS.some(({ name }) => name === word)),
    [],
  );
});
