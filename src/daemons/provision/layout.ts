/**
 * The files in the folder of a provisioner.
 *
 * L1  `processes/<name>.json` is on stable storage before the process of that name is started, and is removed after all of
 *     it has ended: without a file there is no process to look for.
 * L2  Every process carries two marks in its environment. That of its start is for itself and its children. That of its
 *     name is also for the commands that `orchd consume` runs, which outlive it, and are found by its successor.
 * L3  One provisioner at a time has the folder; the lock is released when its process dies.
 */
import { join } from 'node:path';
import { isProcessIdentity, type ProcessIdentity } from '../../kit/process/identity.ts';
import type { Mark } from '../../kit/process/marked.ts';

export const layoutOf = (folder: string) => ({
  folder,
  lock: join(folder, 'lock'),
  registry: join(folder, 'provision.json'),
  processes: join(folder, 'processes'),
  logs: join(folder, 'logs'),
  consumers: join(folder, 'consumers'),
});
export type ProvisionLayout = ReturnType<typeof layoutOf>;

/** The names of worker pools may have dots; the number has none. */
export const nameOf = ({ pool, n }: Pick<SlotRecord, 'pool' | 'n'>): string => `${pool}.${n}`;

export const recordPath = ({ processes }: ProvisionLayout, name: string): string =>
  join(processes, `${name}.json`);
export const logPath = ({ logs }: ProvisionLayout, name: string): string => join(logs, `${name}.log`);

const START_MARK_VARIABLE = 'ORCHD_PROVISION_START';
/** `orchd consume` passes it on to its commands. */
export const NAME_MARK_VARIABLE = 'ORCHD_PROVISION_NAME';

/** Carried by the process of one start and by its children. */
export const startMark = (registry: string, start: string): Mark => ({
  variable: START_MARK_VARIABLE,
  value: `${registry}/${start}`,
});

/** Carried by all that has been started under a name. */
export const nameMark = (registry: string, name: string): Mark => ({
  variable: NAME_MARK_VARIABLE,
  value: `${registry}/${name}`,
});

/** `processes/<name>.json`: one of the processes of a worker pool, whether it runs now or rests after a failure. */
export interface SlotRecord {
  readonly v: 1;
  readonly pool: string;
  readonly n: number;
  /** When the worker pool was created: one that is created anew under the same name is another one. */
  readonly poolSince: number;
  /** Names the last start. */
  readonly start: string;
  /** Undefined until it is known: the process may run all the same, and is found by its mark. */
  readonly process?: ProcessIdentity | undefined;
  readonly ending?: SlotEnding | undefined;
}

export interface SlotEnding {
  /** Since when it is to end. */
  readonly at: number;
  readonly how: 'finish' | 'kill';
  /** The signal to finish was sent. */
  readonly isTold: boolean;
}

export function isSlotRecord(value: Partial<SlotRecord>, name: string): value is SlotRecord {
  const { v, pool, n, poolSince, start, process, ending } = value;
  return (
    v === 1 &&
    typeof pool === 'string' &&
    Number.isSafeInteger(n) &&
    nameOf({ pool, n: n as number }) === name &&
    typeof poolSince === 'number' &&
    typeof start === 'string' &&
    (process === undefined || isProcessIdentity(process)) &&
    (ending === undefined || isSlotEnding(ending))
  );
}

const isSlotEnding = ({ at, how, isTold }: Partial<SlotEnding>): boolean =>
  typeof at === 'number' && (how === 'finish' || how === 'kill') && typeof isTold === 'boolean';
