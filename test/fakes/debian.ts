/** Programs of Debian that tests drive: found, or installed where the tests run as root. */
import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A browser with its libraries takes minutes on a slow line. */
const INSTALL_MS = 600_000;
const FOLDERS = ['/usr/bin', '/usr/sbin', '/bin', '/sbin'];
/** Test files run at the same time, and apt lets only one of them in. */
const LOCK = '/var/lock/orchd-tests-apt';

const INSTALL = [
  'set -e',
  'if command -v "$2" >/dev/null; then exit 0; fi',
  'apt-get update',
  'apt-get install --yes --no-install-recommends "$1"',
].join('\n');

/** The path of a program; `program` is its name where that is not the name of its package. */
export async function needDebian(packageName: string, program = packageName): Promise<string> {
  const found = find(program);
  if (found !== undefined) return found;
  const advice = `${program} is needed here: run \`apt-get install ${packageName}\`, or put it on the PATH`;
  if (process.getuid?.() !== 0) throw new Error(`${advice}. As root this is done by itself.`);
  const said = await install(packageName, program);
  const installed = find(program);
  if (installed === undefined) throw new Error(`${advice}. apt-get did not manage:\n${said}`);
  return installed;
}

/** Where packages of Debian have modules of Python. */
const MODULES = '/usr/lib/python3/dist-packages';

/** A module of Python from a package of Debian, for every python3 that this process starts from now on. */
export async function needPython(packageName: string, module: string): Promise<void> {
  const isThere = (): boolean => spawnSync('python3', ['-c', `import ${module}`]).status === 0;
  if (isThere()) return;
  // Another python3 than that of Debian does not look there by itself.
  process.env['PYTHONPATH'] = [process.env['PYTHONPATH'] ?? [], MODULES].flat().join(delimiter);
  if (isThere()) return;
  const advice = `the module ${module} of python3 is needed here: run \`apt-get install ${packageName}\``;
  if (process.getuid?.() !== 0) throw new Error(`${advice}. As root this is done by itself.`);
  const said = await install(packageName, packageName);
  if (!isThere()) throw new Error(`${advice}. apt-get did not manage:\n${said}`);
}

function find(program: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), ...FOLDERS];
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the end of what was said; whether it worked is seen by whether the program is there. */
function install(packageName: string, program: string): Promise<string> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const args = [LOCK, 'sh', '-c', INSTALL, 'install', packageName, program];
  const child = spawn('flock', args, { env, stdio: ['ignore', 'pipe', 'pipe'], timeout: INSTALL_MS });
  let said = '';
  const hear = (text: string): void => {
    said = (said + text).slice(-2000);
  };
  child.stdout.setEncoding('utf8').on('data', hear);
  child.stderr.setEncoding('utf8').on('data', hear);
  return new Promise((resolve) => {
    child.on('error', ({ message }) => resolve(message));
    child.on('close', () => resolve(said));
  });
}
