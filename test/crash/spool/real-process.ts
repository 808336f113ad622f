/** Starts processes on a spool of a real disk that die at one of their changes of it. */
import fs from 'node:fs';
import { join } from 'node:path';
import { type Children, runChild } from '../children.ts';
import type { DiskWorldPaths } from './disk-world.ts';
import type { Stop } from './faults.ts';

/** `folder` is outside of the disk of the spool, and outlives a power cut. */
export const pathsIn = (folder: string, spool: string): DiskWorldPaths => ({
  spool,
  ledger: join(folder, 'ledger.jsonl'),
});

export interface RealCase {
  readonly folder: string;
  readonly spool: string;
}

/** Where the process has died; the names of its changes where it came to its end. */
export type Died = { readonly where: string } | { readonly changes: readonly string[] };

/** Runs a scenario in a process of its own until it dies, or comes to its end. */
export async function die(
  children: Children,
  { folder, spool }: RealCase,
  scenario: string,
  { at, isTorn = false }: Stop,
): Promise<Died> {
  const command = [process.execPath, children.path('spool/kill-child.js'), folder, spool, scenario];
  const end = await runChild(command, {
    CRASH_AT: String(at),
    CRASH_TORN: isTorn ? '1' : '0',
    NODE_COMPILE_CACHE: join(folder, '..', 'compiled'),
  });
  const file = join(folder, 'died.json');
  const died = fs.existsSync(file) ? (JSON.parse(fs.readFileSync(file, 'utf8')) as Died) : undefined;
  const isAsOrdered = died && ('where' in died ? end.signal === 'SIGKILL' : end.code === 0);
  if (!isAsOrdered)
    throw new Error(`${scenario}, ${at}: ended with ${end.code ?? end.signal}: ${end.stderr}`);
  return died;
}
