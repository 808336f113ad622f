/**
 * The code of the child process, made ready once: hundreds of children are started, and reading types out of a
 * hundred files would be most of what they do. The schema library is left out, since the shape of requests is
 * not what dies there.
 */
import fs from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, relative } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

const STUB = `export const Type = new Proxy({}, { get: () => () => ({ properties: {} }) });
export const Compile = () => ({ Check: () => true, Errors: () => [] });
`;

/** Returns the script to run. */
export function makeChildCode(folder: string): string {
  for (const part of ['src', 'test/crash']) {
    for (const file of fs.globSync('**/*.ts', { cwd: join(ROOT, part) })) {
      if (!file.endsWith('.test.ts')) strip(join(ROOT, part, file), folder);
    }
  }
  strip(join(ROOT, 'test/fakes/scripted-model.ts'), folder);
  strip(join(ROOT, 'test/fakes/unmarked.ts'), folder);
  fs.writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const stub = join(folder, 'node_modules/typebox');
  fs.mkdirSync(stub, { recursive: true });
  fs.writeFileSync(join(stub, 'index.js'), STUB);
  const exports = { '.': './index.js', './compile': './index.js' };
  fs.writeFileSync(join(stub, 'package.json'), JSON.stringify({ name: 'typebox', type: 'module', exports }));
  for (const name of ['mariadb', 'croner'])
    fs.symlinkSync(fs.realpathSync(join(ROOT, 'node_modules', name)), join(folder, 'node_modules', name));
  return join(folder, 'test/crash/workload.js');
}

function strip(path: string, folder: string): void {
  const text = quietly(() => stripTypeScriptTypes(fs.readFileSync(path, 'utf8')));
  const to = join(folder, relative(ROOT, path)).replace(/\.ts$/, '.js');
  fs.mkdirSync(dirname(to), { recursive: true });
  fs.writeFileSync(to, text.replaceAll(/(['"])(\.[^'"\n]*)\.ts\1/g, '$1$2.js$1'));
}

/** Node warns that the call may change; the test would notice. */
function quietly<T>(run: () => T): T {
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return run();
  } finally {
    process.emitWarning = emitWarning;
  }
}
