/** The packages of the peers: installed on demand in a folder of their own, so that nothing else needs them. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const PEERS = fileURLToPath(new URL('../peers', import.meta.url));

/** Its own types may not be there: the caller says what it uses of the package. */
export async function loadPeer<Package>(name: string): Promise<Package> {
  const require = createRequire(join(PEERS, 'package.json'));
  return (await import(pathToFileURL(require.resolve(name)).href)) as Package;
}

/** Says what is in the way, or nothing. */
export function installPeers(...names: readonly string[]): string | undefined {
  if (names.every((name) => existsSync(join(PEERS, 'node_modules', name)))) return undefined;
  console.error('bench: installing the peers (npm ci in bench/peers)');
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { status } = spawnSync('npm', args, { cwd: PEERS, stdio: ['ignore', 2, 2] });
  return status === 0 ? undefined : 'npm ci in bench/peers failed';
}
