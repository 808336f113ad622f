/** Holds the layout, the limits and the bans of the design; each rule is also seen to fail on a small fixture. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { EXCEPTIONS } from './architecture/ambient-exceptions.ts';
import { OUTSIDE_SRC } from './architecture/layers.ts';
import { CORE_FILES, CORE_PUBLIC, LAYOUT } from './architecture/layout.ts';
import { LONG_FILES } from './architecture/sizes.ts';
import { readFiles } from './architecture/source.ts';
import { violations } from './architecture/violations.ts';

const root = join(import.meta.dirname, '..');

describe('the repository', () => {
  const repository = readFiles(root);

  test('keeps its own rules', () => {
    assert.ok(repository.has('src/model/errors.ts') && repository.has('.ci/run'));
    assert.deepEqual(violations(repository), []);
  });

  test('has every file that an exception or the layout names', () => {
    const named = [
      ...[EXCEPTIONS, LONG_FILES, OUTSIDE_SRC].flatMap(Object.keys),
      ...Object.keys(CORE_FILES).map((name) => `src/core/${name}`),
      ...CORE_PUBLIC,
    ];
    assert.deepEqual(
      named.filter((path) => !existsSync(join(root, path))),
      [],
    );
  });
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
      'src/runtime/a.ts': "import type { A } from '../core/state/state.ts';\nimport { b } from './b.ts';\n",
      'src/app/server.ts': "import { routes } from '../api/routes.ts';\nimport yaml from 'yaml';\n",
      'src/cli/commands/up.ts': "import { startServer } from '../../app/server.ts';",
      'src/index.ts': "export * from './app/library.ts';\nexport * from './cli/main.ts';",
    });
    refused(
      { 'src/core/queue/a.ts': "import { b } from '../../runtime/b.ts';" },
      /^src\/core\/queue\/a\.ts:1: core may not import/,
    );
    refused({ 'src/model/a.ts': "import type { B } from '../kit/b.ts';" }, /model may not import/);
    refused(
      { 'src/model/a.ts': "\nexport * from '../app/server.ts';" },
      /^src\/model\/a\.ts:2: .*app\/server\.ts$/,
    );
    refused({ 'src/model/a.ts': "export {\n  b,\n} from '../kit/b.ts';" }, /may not import/);
    refused({ 'src/model/a.ts': "const b = await import('../kit/b.ts');" }, /may not import/);
    refused({ 'src/model/a.ts': 'const b = import(`../kit/b.ts`);' }, /may not import/);
    refused({ 'src/model/a.ts': "import '../kit/b.ts';" }, /may not import/);
    refused({ 'src/model/a.ts': "let a: import('../kit/b.ts').B;" }, /may not import/);
    refused({ 'src/model/a.ts': "export type * from '../kit/b.ts';" }, /may not import/);
    refused({ 'src/stores/a.ts': "new URL('../cli/b.ts', import.meta.url)" }, /may not import/);
    refused({ 'src/app/a.ts': "import { main } from '../cli/main.ts';" }, /app may not import/);
    refused({ 'src/cli/a.ts': "import type { Orchestrator } from '../index.ts';" }, /cli may not import/);
    refused({ 'src/wire/a.ts': "import type { Spool } from '../spool/a.ts';" }, /wire may not import/);
  });

  test('tests may import anything, and nothing imports a test or what is outside src', () => {
    accepted({
      'src/core/a.test.ts': "import { b } from '../runtime/b.ts';\nimport '../../test/fakes/c.ts';",
    });
    refused({ 'src/core/queue/a.ts': "import { b } from './b.test.ts';" }, /imports the test/);
    refused({ 'src/app/a.ts': "import { b } from '../../test/b.ts';" }, /not in src/);
    refused({ 'src/core/queue/a.ts': "import { b } from './b';" }, /does not end in \.ts/);
    refused({ 'src/helpers/a.ts': '' }, /no folder of the layout/);
    refused({ 'src/helpers.ts': '' }, /no folder of the layout/);
  });

  test('imports in comments and strings are not imports', () => {
    accepted({
      'src/model/a.ts': [
        "// import '../kit/b.ts';",
        'const a = "import \'../kit/b.ts\'";',
        "const b = `import '../kit/b.ts'`;",
        "const c = /import '..\\/kit\\/b.ts'/;",
      ].join('\n'),
    });
  });

  test('stores do not know each other; their list and their suite know all', () => {
    accepted({
      'src/stores/a/a.ts': "import '../records.ts';\nimport './log/b.ts';",
      'src/stores/a/place.ts': "import type { Place } from '../migration/between.ts';",
      'src/stores/registry.ts': "import { a } from './a/descriptor.ts';",
      'src/stores/conformance/suite.ts': "import { b } from '../b/harness.ts';",
    });
    refused(
      { 'src/stores/a/a.ts': "import type { B } from '../b/b.ts';" },
      /a store may not import .*\/b\.ts/,
    );
    refused({ 'src/stores/migration/b.ts': "import '../a/a.ts';" }, /a store may not/);
  });

  test('no store is known by its name outside of src/stores', () => {
    const store = { 'src/stores/tables/descriptor.ts': '' };
    const isStore = "const isStore = (kind: string) => kind === 'tables';";
    accepted({ ...store, 'src/stores/registry.ts': isStore, 'src/config/schema.ts': isStore });
    accepted({ ...store, 'src/app/a.ts': "const text = 'brings tables to this version';" });
    refused({ ...store, 'src/cli/a.ts': isStore }, /^src\/cli\/a\.ts:1: knows the store "tables"/);
    refused({ ...store, 'src/app/a.ts': 'const kind = STORES.tables;' }, /knows the store "tables"/);
  });

  test('a picture can be drawn of them: the edges go one way and leave out nobody', () => {
    for (const { order, edges } of [LAYOUT.folders, LAYOUT.core]) {
      assert.equal(edges.length, (order.length * (order.length - 1)) / 2);
      for (const { from, to } of edges) assert.ok(order.indexOf(to) < order.indexOf(from));
    }
    assert.deepEqual(JSON.parse(JSON.stringify(LAYOUT)), LAYOUT);
  });
});

describe('cycles', () => {
  const cycle = {
    'src/kit/a.ts': "import { b } from './b.ts';",
    'src/kit/b.ts': "import { a } from './a.ts';",
  };

  test('files do not import each other in a circle, be it for types', () => {
    refused(cycle, /import cycle: src\/kit\/a\.ts, src\/kit\/b\.ts/);
    refused({ 'src/kit/a.ts': "import { a } from './a.ts';" }, /import cycle: src/);
    refused(
      { ...cycle, 'src/kit/b.ts': "import type { A } from './a.ts';" },
      /import cycle through types: src\/kit\/a\.ts, src\/kit\/b\.ts/,
    );
    refused({ 'src/kit/a.ts': "let a: import('./a.ts').A;" }, /import cycle through types/);
    accepted({ ...cycle, 'src/kit/b.ts': "import { c } from './c.ts';", 'src/kit/c.ts': '' });
    accepted({ ...cycle, 'src/kit/b.test.ts': cycle['src/kit/b.ts'], 'src/kit/b.ts': '' });
  });

  test('folders of core do not import each other, be it through different files', () => {
    const folders = {
      'src/core/scheduling/a.ts': "import { place } from './placement/b.ts';",
      'src/core/scheduling/placement/b.ts': '',
      'src/core/scheduling/placement/c.ts': "import type { Prediction } from '../d.ts';",
      'src/core/scheduling/d.ts': '',
    };
    refused(
      folders,
      /cycle between folders of core: src\/core\/scheduling, src\/core\/scheduling\/placement$/,
    );
    accepted({ ...folders, 'src/core/scheduling/placement/c.ts': "import { b } from './b.ts';" });
  });
});

describe('the core', () => {
  test('does no I/O and does not wait', () => {
    accepted({ 'src/core/queue/a.ts': 'const a = { awaiting: 1, async: 2 }; // await nothing\n' });
    const refusedCore = (text: string, expected: RegExp): void =>
      refused({ 'src/core/queue/a.ts': text }, expected);
    refusedCore("import { join } from 'node:path';", /core may not import node:path/);
    refusedCore("import type { Socket } from 'node:net';", /core may not import node:net/);
    refusedCore("import type { Socket } from 'net';", /core may not import net/);
    refusedCore('export async function f() {}', /core may not use async/);
    refusedCore('export const f = async () => 1;', /core may not use async/);
    refusedCore('class A { async f() {} }', /core may not use async/);
    refusedCore('const a = { async *f() {} };', /core may not use async/);
    refusedCore('const b = 1;\nawait g();', /a\.ts:2: core may not use await/);
    refusedCore('for await (const a of b) c(a);', /core may not use await/);
    refusedCore('await using a = b();', /core may not use await/);
    assert.deepEqual(found({ 'src/core/queue/a.ts': 'const f = async () => {\n  await g();\n};' }), [
      'src/core/queue/a.ts:1: core may not use async',
      'src/core/queue/a.ts:2: core may not use await',
    ]);
  });

  test('has layers of its own: a layer may import itself and the ones before it', () => {
    accepted({
      'src/core/ports/a.ts': '',
      'src/core/queue/a.ts': "import type { State } from '../state/a.ts';\nimport { b } from './b.ts';",
      'src/core/engine/a.ts': "import '../workers/a.ts';\nimport './due.ts';",
      'src/core/workers/a.ts': "import './catalog/b.ts';\nimport '../admission/b.ts';",
      'src/core/limits/a.ts': "import type { LimitRecord } from '../../model/records.ts';",
    });
    const refusedCore = (path: string, target: string, expected: RegExp): void =>
      refused({ [path]: `import type { A } from '${target}';` }, expected);
    refusedCore('src/core/state/a.ts', '../queue/a.ts', /state may not import src\/core\/queue\/a\.ts/);
    refusedCore('src/core/ports/a.ts', '../state/a.ts', /^src\/core\/ports\/a\.ts:1: core's ports may not/);
    refusedCore('src/core/limits/a.ts', '../governance/a.ts', /limits may not import/);
    refusedCore('src/core/scheduling/a.ts', '../attempts/a.ts', /scheduling may not import/);
    refusedCore('src/core/attempts/a.ts', '../admission/limits/a.ts', /which is admission$/);
    refusedCore('src/core/admission/a.ts', '../workers/a.ts', /admission may not import/);
    refusedCore('src/core/workers/a.ts', '../engine/due.ts', /workers may not import .*, which is engine$/);
    refused({ 'src/core/helpers/a.ts': '' }, /helpers\/a\.ts: is in no layer of core/);
    refused({ 'src/core/toString': '', 'src/core/helpers.ts': '' }, /helpers\.ts: is in no layer of core/);
    accepted({ 'src/core/queue/a.test.ts': "import '../engine/engine.ts';" });
  });

  test('is seen from outside through its public files alone; runtime and test code see its insides', () => {
    const inside = "import type { State } from '../core/state/state.ts';";
    const expected =
      /^src\/\w+\/a\.ts:1: imports src\/core\/state\/state\.ts, which is for core and runtime alone$/;
    for (const folder of ['relay', 'stores', 'backends', 'telemetry', 'api', 'cli', 'app'])
      refused({ [`src/${folder}/a.ts`]: inside }, expected);
    refused(
      { 'src/index.ts': "export type { State } from './core/state/state.ts';" },
      /for core and runtime alone/,
    );
    refused(
      { 'src/api/a.ts': "let a: import('../core/state/job-entry.ts').JobEntry;" },
      /imports src\/core\/state\/job-entry\.ts/,
    );
    accepted({
      'src/stores/a.ts': "import type { Store } from '../core/ports/store.ts';",
      'src/runtime/a.ts': inside,
      'src/stores/a.test.ts': inside,
      'src/stores/conformance/a.ts':
        "import { Engine } from '../../core/engine/engine.ts';\nopened.engine.state;",
      'test/sim/a.ts': "import { Engine } from '../../src/core/engine/a.ts';\nopened.engine.state;",
    });
    refused(
      { 'src/stores/journal/conformance/a.ts': "import '../../../core/turn.ts';" },
      /imports .*turn\.ts/,
    );
    refused({ 'src/runtime/a.ts': "export type { State } from '../core/state/state.ts';" }, /:1: re-exports/);
  });

  test('is not reached through the orchestrator either', () => {
    const uses = [
      'orchestrator.engine.state.jobs;',
      'class A { #orchestrator; a = this.#orchestrator.engine; }',
      'orchestrator?.engine;',
      "orchestrator['engine'];",
      'const { engine } = orchestrator;',
      'const { state } = this.orchestrator.engine;',
      'measured.engine.state;',
      'const { state } = measured.engine;',
      'engine.state;',
      "let a: (typeof orchestrator)['x'] | typeof orchestrator.engine;",
    ];
    for (const use of uses) refused({ 'src/api/a.ts': use }, /a\.ts:1: reaches into the engine/);
    accepted({
      'src/api/a.ts': 'orchestrator.reads.job(id);\nworker.engine.name;\nconst { engine } = rule;',
      'src/runtime/a.ts': uses.map((use) => `{ ${use} }`).join('\n'),
      'src/api/a.test.ts': uses.map((use) => `{ ${use} }`).join('\n'),
    });
  });
});

describe('the client', () => {
  const files = {
    'src/client/a.ts': "import { b } from '../wire/b.ts';",
    'src/wire/b.ts': "import '../kit/c.ts';",
    'src/kit/c.ts': "import { join } from 'node:path';",
  };

  test('loads nothing that browsers do not have, however indirectly', () => {
    refused(files, /^src\/kit\/c\.ts:1: imports node:path, and src\/client\/ loads it in browsers$/);
    refused({ 'src/client/a.ts': "import { join } from 'path';" }, /:1: imports path, and/);
    accepted({ ...files, 'src/wire/b.ts': "import type { C } from '../kit/c.ts';" });
    accepted({ ...files, 'src/kit/c.ts': "import type { Socket } from 'node:net';" });
    accepted({ ...files, 'src/client/a.ts': '', 'src/client/a.test.ts': files['src/client/a.ts'] });
  });
});

describe('sizes', () => {
  const lines = (count: number): string => 'x();\n'.repeat(count);

  test('files have at most 400 lines, tests as many as they need', () => {
    accepted({ 'src/kit/a.ts': lines(400), 'src/kit/a.test.ts': lines(401) });
    refused({ 'src/kit/a.ts': lines(401) }, /has 401 lines, may have 400/);
  });

  test('functions have at most 70 lines, however they are written', () => {
    const functions: [head: string, end: string][] = [
      ['function f() {', '}'],
      ['export async function f<T extends { a: string }>(a: T): Promise<{ b: T }[]> {', '}'],
      ['const f = (a: string): { b: string } => {', '}'],
      ['class A {\n  get(a = { b: 1 }): a is string | { c: number } {', '} }'],
      ['class A { static #a = function () {', '} }'],
      ['class A { constructor() {', '} }'],
      ['const o = { async *[key](a: string) {', '} }'],
      ['const o = { get a(): string {', '} }'],
    ];
    for (const [head, end] of functions) {
      accepted({ 'src/kit/a.ts': `${head}\n${lines(68)}${end}\n` });
      refused({ 'src/kit/a.ts': `${head}\n${lines(69)}${end}\n` }, /a function of 71 lines, may have 70/);
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
      'const timers = { setTimeout }',
      'let timer: ReturnType<typeof setTimeout>',
      "Date['now']()",
      'Date()',
      'performance.timeOrigin',
      'process.hrtime.bigint()',
      'AbortSignal.timeout(1)',
      "process.getBuiltinModule('fs')",
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
        'interface Timers { setTimeout(f: () => void): void }',
        'class Clock { setTimeout() {} #setInterval = 1; }',
        'const timers = { setTimeout: env.setTimeout };',
        "let sizes: import('node:fs').Stats;",
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

describe('decisions', () => {
  // Put together from parts: this file is read by the rule too.
  const cite = (number: string): string => `/** See docs/${'decisions'}/${number}. */`;
  const files = { [`docs/${'decisions'}/0001-a.md`]: '# 1. A', 'src/kit/a.ts': cite('0001') };

  test('a citation names a decision that exists, and src cites every decision', () => {
    accepted(files);
    refused(
      { ...files, 'test/a.ts': `\n${cite('0002')}` },
      /^test\/a\.ts:2: cites decision 0002, which does not/,
    );
    refused(
      { ...files, 'docs/a.md': `(${'decision'} 12)` },
      /^docs\/a\.md:1: cites decision 0012, which does not/,
    );
    refused({ ...files, 'src/kit/a.ts': '' }, /^decision 0001 is cited nowhere in src$/);
    refused({ ...files, 'src/kit/a.ts': '', 'docs/a.md': cite('0001') }, /is cited nowhere in src$/);
  });
});

describe('file modes', () => {
  test('no file or folder is created with the mode that the umask leaves', () => {
    const inCli = (text: string) => ({ 'src/cli/a.ts': `import fs from 'node:fs';\n${text}` });
    for (const text of [
      "fs.mkdirSync('a', { mode: 0o700 });",
      "fs.openSync('a', 'w', 0o600);",
      "await fs.promises.writeFile('a', text);",
      "fs.appendFileSync('a', text);",
    ])
      refused(inCli(text), /^src\/cli\/a\.ts:2: creates a file past kit\/env\/private-files\.ts/);
    accepted(inCli("fs.openSync('a', 'r');\nconst text = fs.readFileSync('a');"));
    accepted({ 'src/kit/env/a.ts': "import fs from 'node:fs';\nfs.mkdirSync('a');" });
    accepted({ 'src/wire/a.ts': "disk.open('a', 'create');" });
  });
});

describe('the command line', () => {
  test('writes through its terminal port only', () => {
    for (const text of [
      "process.stdout.write('a');",
      'const { columns } = process.stderr;',
      "console.log('a');",
      "import { LineOutput } from '../kit/env/line-output.ts';",
      'const colours = process.stdout.isTTY;',
    ])
      refused({ 'src/cli/a.ts': text }, /^src\/cli\/a\.ts:1: writes past the terminal port/);
    accepted({ 'src/cli/a.ts': 'stdout.write(a);\nterminal.print(a.stdout, layout.console);' });
    accepted({ 'src/cli/main.ts': 'terminalOf(process.stdout, process.stderr, false);' });
    accepted({ 'src/app/a.ts': "process.stderr.write('a');" });
  });
});

describe('what must not be there', () => {
  test('enums, namespaces and tests marked only', () => {
    refused({ 'src/kit/a.ts': 'export enum A { B }' }, /holds an enum/);
    refused({ 'src/kit/a.ts': 'const enum A { B }' }, /holds an enum/);
    refused({ 'test/a.ts': 'namespace A {}' }, /holds a namespace/);
    refused({ 'src/kit/a.test.ts': "test.only('a', () => {});" }, /holds a test marked only/);
    refused({ 'test/flow/a.test.ts': "test('a', { only: true }, () => {});" }, /marked only/);
    refused({ 'test/flow/a.test.ts': "t.test.only('a', () => {});" }, /marked only/);
    accepted({ 'src/kit/a.ts': "const a = { enum: ['b'] };\nconst { namespace } = a;" });
    accepted({ 'src/kit/a.ts': "declare module 'yaml' {}\ndeclare global {}" });
  });

  test('files that cannot be parsed, since no rule can read them', () => {
    refused({ 'src/kit/a.ts': 'const a = 1;\nconst = 2;' }, /^src\/kit\/a\.ts:2: cannot be parsed: /);
    accepted({ 'src/kit/a.ts': `#!/usr/bin/env node\nusing a = b<'😀'>\`c\${d as E}\` satisfies F;` });
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
