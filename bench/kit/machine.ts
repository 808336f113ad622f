/** The facts about the machine that a reader needs to judge the numbers. */
import os from 'node:os';
import { diskName } from './disk.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGib: number;
  readonly kernel: string;
  readonly node: string;
  readonly disk: string;
  readonly folder: string;
  readonly load: number;
  readonly at: string;
}

export function machineFacts(folder: string): Machine {
  return {
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.availableParallelism(),
    memoryGib: Math.round(os.totalmem() / 2 ** 30),
    kernel: `${os.type()} ${os.release()}`,
    node: process.version,
    disk: diskName(folder),
    folder,
    load: Number((os.loadavg()[0] ?? 0).toFixed(2)),
    at: new Date().toISOString(),
  };
}
