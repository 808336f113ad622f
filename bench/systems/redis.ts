/** A private Redis that syncs its log before every answer, with its data in the folder of the bench. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { DURABLE, type OwnRedis, ownRedis } from '../../test/fakes/redis.ts';

export const hasRedis = (): boolean => spawnSync('redis-server', ['--version']).status === 0;

export async function startRedis(folder: string): Promise<OwnRedis> {
  mkdirSync(folder, { recursive: true });
  return ownRedis({ folder, args: DURABLE });
}
