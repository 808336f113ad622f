import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

/** Runs a script with few file descriptors, all of which it has opened; `attempt` then starts a process. */
function withoutDescriptors(attempt: string): string {
  const script = `import fs from 'node:fs';
import { spawn } from 'node:child_process';
const { withPipes } = await import(${JSON.stringify(new URL('./piped.ts', import.meta.url))});
const opened = [];
try { for (;;) opened.push(fs.openSync('/dev/null')); } catch {}
${attempt}
for (const fd of opened) fs.closeSync(fd);
setTimeout(() => console.log('goes on'), 100);`;
  const argv = [
    '-c',
    'ulimit -n 64 && exec "$0" "$@"',
    process.execPath,
    '--input-type=module',
    '-e',
    script,
  ];
  const { stdout, stderr } = spawnSync('sh', argv, { encoding: 'utf8' });
  return stdout + stderr;
}

test('a process that cannot be started for want of file descriptors is an error, and not the end of the program', () => {
  const attempt =
    "try { withPipes(spawn('true', [], { stdio: ['pipe', 'pipe', 'pipe'] })); } catch ({ code }) { console.log(code); }";
  assert.equal(withoutDescriptors(attempt), 'EMFILE\ngoes on\n');
});
