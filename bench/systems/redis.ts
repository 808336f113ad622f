/** A private Redis that syncs its log before every answer, on a socket in a folder of ours. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { sleep } from '../kit/numbers.ts';
import type { Redis } from './bullmq.ts';

const START_TRIES = 100;

export interface RunningRedis extends Redis {
  stop(): Promise<void>;
}

export const hasRedis = (): boolean => spawnSync('redis-server', ['--version']).status === 0;

export async function startRedis(folder: string): Promise<RunningRedis> {
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
  const child = spawn('redis-server', [...where, ...durable], { stdio: 'ignore' });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  for (let tries = 0; !(await answers(socket)); tries++) {
    if (tries === START_TRIES || child.exitCode !== null) throw new Error('redis-server did not start');
    await sleep(50);
  }
  return { socket, pid: child.pid ?? 0, stop: () => stop(child, kill) };
}

async function stop(child: ChildProcess, kill: () => void): Promise<void> {
  process.off('exit', kill);
  if (child.exitCode !== null) return;
  const gone = new Promise((resolve) => {
    child.once('exit', resolve);
  });
  child.kill('SIGTERM');
  await gone;
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
