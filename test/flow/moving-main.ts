/**
 * Moves a journal, and kills itself before the given effect on the target. Without one it says how many effects there
 * are, and how many of them come before the first and the last piece: in between the target is unfinished.
 */

import type { Disk, DiskFile } from '../../src/kit/env/env.ts';
import { realEnv } from '../../src/kit/env/real.ts';
import { connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import { migrateBetween } from '../../src/stores/migration/between.ts';
import { journal, tables } from './moving-kit.ts';

const [from, to, killAt] = process.argv.slice(2) as [string, string, string];
let effects = 0;

const EFFECTS = [
  'run',
  'batch',
  'commit',
  'write',
  'datasync',
  'rename',
  'remove',
  'makeFolder',
  'syncFolder',
];

/** Counts every call that changes something. */
function counted<T extends object>(real: T, wrap: (name: string, value: unknown) => unknown): T {
  return new Proxy(real, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]) => {
        if (EFFECTS.includes(String(name)) && ++effects === Number(killAt))
          process.kill(process.pid, 'SIGKILL');
        return wrap(String(name), await (member as (...args: unknown[]) => unknown).apply(target, args));
      };
    },
  });
}

const plain = (_: string, value: unknown): unknown => value;
const { disk, ...env } = realEnv();
const counting: Disk = counted(disk, (name, value) =>
  name === 'open' ? counted(value as DiskFile, plain) : value,
);
const connect = async (): Promise<Sql> => counted(await connector(to)(), plain);
const target = to.startsWith('mariadb:') ? tables(to, connect) : journal(to);

const atPieces: number[] = [];
await migrateBetween({ ...env, disk: counting }, journal(from), target, () => atPieces.push(effects));
console.log(JSON.stringify({ effects, firstPiece: atPieces[0], lastPiece: atPieces.at(-1) }));
