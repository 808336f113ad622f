/** `npm run build`: compiles src to JavaScript and declarations in dist/. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const main = join(dist, 'cli', 'main.js');

// Files of an earlier build would be published with this one.
rmSync(dist, { recursive: true, force: true });

const manifest = createRequire(import.meta.url).resolve('typescript/package.json');
const compiler = join(manifest, '..', 'bin', 'tsc');
const { status, error } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (error !== undefined) console.error(error.message);
if (status !== 0) process.exit(status ?? 1);

if (existsSync(main)) chmodSync(main, 0o755);
else console.error('note: there is no src/cli/main.ts, so the package has no command');
