/** Holds the layout, the limits and the bans of the design; each rule is also seen to fail on a small fixture. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { EXCEPTIONS } from './architecture/ambient.ts';
import { typeCycles } from './architecture/cycles.ts';
import { maskOf } from './architecture/mask.ts';
import { readFiles, sourcesOf } from './architecture/source.ts';
import { violations } from './architecture/violations.ts';

const root = join(import.meta.dirname, '..');
const repository = readFiles(root);

test('the repository keeps its own rules', () => {
  assert.ok(repository.has('src/model/errors.ts') && repository.has('.ci/run'));
  assert.deepEqual(violations(repository), []);
});

test('cycles of types across folders and exceptions without a file are named', (t) => {
  for (const cycle of typeCycles(sourcesOf(repository))) t.diagnostic(cycle);
  for (const path of Object.keys(EXCEPTIONS)) {
    if (!existsSync(join(root, path))) t.diagnostic(`exception for a file that is not there: ${path}`);
  }
});

/** Violations of one file, or of several given as path → text. */
function found(files: Record<string, string>): string[] {
  return violations(new Map(Object.entries(files)));
}

function refused(files: Record<string, string>, expected: RegExp): void {
  const all = found(files);
  assert.equal(all.length, 1, `expected one violation of ${JSON.stringify(files)}, found ${all.join('; ')}`);
  assert.match(all[0]!, expected);
}

const accepted = (files: Record<string, string>): void => assert.deepEqual(found(files), []);

describe('layers', () => {
  test('a folder may import itself and the ones before it', () => {
    accepted({
      'src/runtime/a.ts': "import type { A } from '../core/a.ts';\nimport { b } from './b.ts';\n",
      'src/app.ts': "import { main } from './cli/main.ts';\nimport yaml from 'yaml';\n",
    });
    refused(
      { 'src/core/a.ts': "import { b } from '../runtime/b.ts';" },
      /^src\/core\/a\.ts:1: core may not import/,
    );
    refused({ 'src/model/a.ts': "import type { B } from '../kit/b.ts';" }, /model may not import/);
    refused({ 'src/model/a.ts': "\nexport * from '../app.ts';" }, /^src\/model\/a\.ts:2: .*app\.ts$/);
    refused({ 'src/model/a.ts': "export {\n  b,\n} from '../kit/b.ts';" }, /may not import/);
    refused({ 'src/model/a.ts': "const b = await import('../kit/b.ts');" }, /may not import/);
    refused({ 'src/model/a.ts': "import '../kit/b.ts';" }, /may not import/);
    refused({ 'src/stores/a.ts': "new URL('../cli/b.ts', import.meta.url)" }, /may not import/);
  });

  test('tests may import anything, and nothing imports a test or what is outside src', () => {
    accepted({
      'src/core/a.test.ts': "import { b } from '../runtime/b.ts';\nimport '../../test/fakes/c.ts';",
    });
    refused({ 'src/core/a.ts': "import { b } from './b.test.ts';" }, /imports the test/);
    refused({ 'src/app.ts': "import { b } from '../test/b.ts';" }, /not in src/);
    refused({ 'src/core/a.ts': "import { b } from './b';" }, /does not end in \.ts/);
    refused({ 'src/helpers/a.ts': '' }, /no folder of the layout/);
  });

  test('imports in comments and strings are not imports', () => {
    accepted({ 'src/model/a.ts': "// import '../kit/b.ts';\nconst a = \"import '../kit/b.ts'\";" });
  });

  test('stores know neither the state nor each other', () => {
    accepted({
      'src/stores/a/a.ts': "import '../records.ts';\nimport './log/b.ts';\nimport '../../core/ports.ts';",
      'src/stores/a/harness.ts': "import { Opened } from '../conformance/opened.ts';",
      'src/stores/registry.ts': "import { a } from './a/descriptor.ts';",
      'src/stores/a/place.ts': "import type { Place } from '../migration/between.ts';",
    });
    refused({ 'src/stores/a/a.ts': "import type { State } from '../../core/state.ts';" }, /a store may not/);
    refused({ 'src/stores/migration/b.ts': "import '../a/a.ts';" }, /a store may not/);
    refused({ 'src/stores/a/log/b.ts': "import '../../../core/entry.ts';" }, /a store may not/);
    refused(
      { 'src/stores/a/a.ts': "import { b } from '../b/b.ts';" },
      /a store may not import src\/stores\/b/,
    );
  });

  test('the core does no I/O and does not wait', () => {
    accepted({ 'src/core/a.ts': 'const a = { awaiting: 1 }; // await nothing\n' });
    refused({ 'src/core/a.ts': "import { join } from 'node:path';" }, /core may not import node:path/);
    refused({ 'src/core/a.ts': "import type { Socket } from 'node:net';" }, /core may not import node:net/);
    refused({ 'src/core/a.ts': 'export async function f() {}' }, /core may not use async/);
    refused(
      { 'src/core/a.ts': 'export const f = () => {\n  await g();\n};' },
      /a\.ts:2: core may not use await/,
    );
  });

  test('files do not import each other in a circle', () => {
    const cycle = {
      'src/kit/a.ts': "import { b } from './b.ts';",
      'src/kit/b.ts': "import { a } from './a.ts';",
    };
    refused(cycle, /import cycle: src\/kit\/a\.ts, src\/kit\/b\.ts/);
    refused({ 'src/kit/a.ts': "import { a } from './a.ts';" }, /import cycle/);
    accepted({ ...cycle, 'src/kit/b.ts': "import type { A } from './a.ts';" });
  });

  test('a circle of types is named where it ties folders together', () => {
    const files = new Map([
      ['src/core/a.ts', "import { b } from './queue/b.ts';"],
      ['src/core/queue/b.ts', "import type { A } from '../a.ts';"],
    ]);
    assert.equal(typeCycles(sourcesOf(files)).length, 1);
  });
});

describe('sizes', () => {
  const lines = (count: number): string => 'x();\n'.repeat(count);

  test('files have at most 400 lines, tests as many as they need', () => {
    accepted({ 'src/kit/a.ts': lines(400), 'src/kit/a.test.ts': lines(401) });
    refused({ 'src/kit/a.ts': lines(401) }, /has 401 lines, may have 400/);
  });

  test('functions have at most 70 lines, however they are written', () => {
    const heads = [
      'function f() {',
      'export async function f<T extends { a: string }>(a: T): Promise<{ b: T }[]> {',
      'const f = (a: string): { b: string } => {',
      'class A {\n  get(a = { b: 1 }): a is string | { c: number } {',
      'const o = { async *[key](a: string) {',
    ];
    for (const head of heads) {
      accepted({ 'src/kit/a.ts': `${head}\n${lines(68)}}\n` });
      refused({ 'src/kit/a.ts': `${head}\n${lines(69)}}\n` }, /a function of 71 lines, may have 70/);
    }
  });

  test('long tables, types and blocks are no functions', () => {
    accepted({ 'src/kit/a.ts': `const table = {\n${'  a: 1,\n'.repeat(100)}};\n` });
    accepted({ 'src/kit/a.ts': `export interface A {\n${'  a(b: string): void;\n'.repeat(100)}}\n` });
    accepted({ 'src/kit/a.ts': `if (a(b)) {\n${lines(100)}}\n` });
    accepted({ 'src/kit/a.ts': `f(a, {\n${'  a: b(c),\n'.repeat(100)}});\n` });
  });
});

describe('the environment', () => {
  test('clock, chance, timers, disk and processes are used behind kit/env only', () => {
    const uses = [
      'Date.now()',
      'new Date()',
      'new Date',
      'Math.random()',
      'performance.now()',
      'setTimeout(f, 1)',
      'setInterval(f, 1)',
      'setImmediate(f)',
      'globalThis.setTimeout(f)',
      'crypto.randomUUID()',
      "import { readFile } from 'node:fs/promises'",
      "import fs from 'fs'",
      "import { spawn } from 'node:child_process'",
      "import { Worker } from 'node:worker_threads'",
      "import { DatabaseSync } from 'node:sqlite'",
      "const sqlite = import('node:sqlite')",
      "import { randomBytes } from 'node:crypto'",
      `const text = \`\${Date.now()}\``,
    ];
    for (const use of uses) {
      refused(
        { 'src/relay/a.ts': `${use};\n` },
        /^src\/relay\/a\.ts:1: uses .*; it belongs behind kit\/env$/,
      );
      accepted({
        'src/kit/env.ts': use,
        'src/kit/env-node.ts': use,
        'src/kit/env/disk.ts': use,
        'src/cli/a.ts': use,
        'src/relay/a.test.ts': use,
      });
    }
  });

  test('what only looks like it is accepted', () => {
    accepted({
      'src/relay/a.ts': [
        'const at = new Date(env.clock.now());',
        'env.setTimeout(f, 1);',
        "import { createHash } from 'node:crypto';",
        "import type { Stats } from 'node:fs';",
        "const say = 'Date.now()'; // Math.random()",
        'const pattern = /setTimeout\\(/;',
      ].join('\n'),
    });
  });

  test('an exception holds for its file and for what it names only', () => {
    const [path] = Object.keys(EXCEPTIONS);
    accepted({ [path!]: "import { DatabaseSync } from 'node:sqlite';" });
    refused({ [path!]: 'Date.now();' }, /uses Date\.now/);
    for (const { reason } of Object.values(EXCEPTIONS)) assert.ok(reason.length > 10);
  });
});

describe('what must not be there', () => {
  test('enums, namespaces and tests marked only', () => {
    refused({ 'src/kit/a.ts': 'export enum A { B }' }, /holds an enum/);
    refused({ 'src/kit/a.ts': 'const enum A { B }' }, /holds an enum/);
    refused({ 'test/a.ts': 'namespace A {}' }, /holds a namespace/);
    refused({ 'src/kit/a.test.ts': "test.only('a', () => {});" }, /holds a test marked only/);
    refused({ 'test/flow/a.test.ts': "test('a', { only: true }, () => {});" }, /marked only/);
    accepted({ 'src/kit/a.ts': "const a = { enum: ['b'] };\nconst { namespace } = a;" });
  });

  test('paths of one machine and hosts of registries', () => {
    const here = ['', 'work', 'main', 'src'].join('/');
    refused({ 'docs/a.md': `see ${here}` }, /^docs\/a\.md:1: holds an absolute path/);
    refused({ 'src/kit/a.ts': `const a = '${here}';` }, /an absolute path/);
    refused({ '.npmrc': `${'registry'}=x` }, /a registry host/);
    refused({ 'docs/a.md': `https://${'registry'}.npmjs.org/x` }, /a registry host/);
    refused({ 'package-lock.json': `"${'resolved'}": "https://x"` }, /a registry host/);
    accepted({ 'src/kit/a.ts': 'this.registry.workers.get(a);\nregistry = b;' });
    accepted({ 'docs/a.md': 'POST /workers/pool, /v2/work, ~/work/x, test/root/a' });
  });

  test('conflicts of a merge', () => {
    for (const side of ['<<<<<<', '>>>>>>'])
      refused({ 'docs/a.md': `a\n${side}${side[0]} b` }, /^docs\/a\.md:2: holds what a merge has left/);
    accepted({ 'docs/a.md': 'a << b\n=======\n> > quoted' });
  });
});

test('the mask keeps code and blanks the rest', () => {
  const cases: [text: string, mask: string][] = [
    ["a('b') // c", "a(' ')     "],
    ['a /* b */ c', 'a         c'],
    [`\`a\${b({ c: \`d\${e}\` })}f\``, '`   b({ c: `   e ` })  `'],
    ['a / b / c', 'a / b / c'],
    ['x = /[/"]b/g; y', 'x = /     /g; y'],
    ["'a\\'b' c", "'    ' c"],
    ['return /a/.test(b)', 'return / /.test(b)'],
    ["'😀' a", "'  ' a"],
  ];
  for (const [text, mask] of cases) {
    assert.equal(maskOf(text), mask);
    assert.equal(maskOf(text).length, text.length);
  }
});
