/** A private Redis that syncs its log before every answer, on a socket in the data folder of the bench. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Redis } from './bullmq.ts';
import { type Daemon, startDaemon } from './daemon.ts';

export type RunningRedis = Redis & Daemon;

export const hasRedis = (): boolean => spawnSync('redis-server', ['--version']).status === 0;

export async function startRedis(folder: string, program = 'redis-server'): Promise<RunningRedis> {
  mkdirSync(folder, { recursive: true });
  const socket = join(folder, 'redis.sock');
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', ''];
  const where = [
    '--port',
    '0',
    '--unixsocket',
    socket,
    '--dir',
    folder,
    '--logfile',
    join(folder, 'redis.log'),
  ];
  const daemon = await startDaemon({
    program,
    args: [...where, ...durable],
    answers: () => answers(socket),
  });
  return { socket, ...daemon };
}

function answers(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const client = connect(socket, () => client.write('PING\r\n'));
    client.once('data', (data) => {
      client.destroy();
      resolve(data.toString().startsWith('+PONG'));
    });
    client.once('error', () => resolve(false));
  });
}
