/** Tells a model how this machine is: load, memory, uptime and free disk space. No names, addresses, users or environment. */
import os from 'node:os';
import type { Disk } from '../../kit/env/env.ts';
import { usableCores } from '../../kit/process/cpu-limit.ts';
import type { Tool } from './tool.ts';

export interface MachineHealthOptions {
  readonly disk: Pick<Disk, 'space'>;
  /** Folders whose free space is told, by the name under which it is told; the model does not see their paths. */
  readonly folders?: Readonly<Record<string, string>>;
}

export function machineHealthTool({ disk, folders = {} }: MachineHealthOptions): Tool {
  return {
    name: 'machine_health',
    description:
      'Returns the load, number of cores, memory, uptime and free disk space of the machine that orchd runs on.',
    parameters: { type: 'object', properties: {}, additionalProperties: false },
    effect: 'pure',
    category: 'read',
    timeoutMs: 10_000,
    run: async () => {
      const [load1 = 0, load5 = 0, load15 = 0] = os.loadavg().map(twoDigits);
      return {
        load: { last_minute: load1, last_5_minutes: load5, last_15_minutes: load15 },
        cores: twoDigits(usableCores()),
        memory: { total_bytes: os.totalmem(), free_bytes: os.freemem() },
        uptime_seconds: Math.floor(os.uptime()),
        disk_free_bytes: Object.fromEntries(await freeSpace(disk, folders)),
      };
    },
  };
}

const twoDigits = (value: number): number => Math.round(value * 100) / 100;

/** The free space of a folder that cannot be measured is null. */
function freeSpace(
  disk: Pick<Disk, 'space'>,
  folders: Readonly<Record<string, string>>,
): Promise<[name: string, bytes: number | null][]> {
  return Promise.all(
    Object.entries(folders).map(async ([name, path]): Promise<[string, number | null]> => {
      const space = await disk.space?.(path).catch(() => undefined);
      return [name, space?.freeBytes ?? null];
    }),
  );
}
