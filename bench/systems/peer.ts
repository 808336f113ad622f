/** Installs and loads the packages of the peers, on demand and in a folder of their own (bench/peers). */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const PEERS = fileURLToPath(new URL('../peers', import.meta.url));

/** Imports a peer's package. The type is the caller's, since the package's own types may be missing. */
export async function loadPeer<Package>(name: string): Promise<Package> {
  const require = createRequire(join(PEERS, 'package.json'));
  return (await import(pathToFileURL(require.resolve(name)).href)) as Package;
}

/** Installs the packages unless they are there; returns the reason for a failure. */
export function installPeers(...names: readonly string[]): string | undefined {
  if (names.every((name) => existsSync(join(PEERS, 'node_modules', name)))) return undefined;
  console.error('bench: installing the peers (npm ci in bench/peers)');
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  const { status } = spawnSync('npm', args, { cwd: PEERS, stdio: ['ignore', 2, 2] });
  return status === 0 ? undefined : 'npm ci in bench/peers failed';
}
