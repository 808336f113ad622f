/**
 * A process and all its descendants. They carry the same mark, an environment variable, so they can be found even when
 * their parent has changed or their pid was never recorded. The leader is the process that was started first.
 */
import type { Env } from '../env/env.ts';
import { poll } from '../poll.ts';
import {
  environmentHas,
  identityOf,
  isAlive,
  leadsGroup,
  type ProcessIdentity,
  processesWith,
  signal,
} from './identity.ts';

export interface Mark {
  readonly variable: string;
  readonly value: string;
}

/** The environment variable to start a process with so that it carries the mark. */
export const markVariable = ({ variable, value }: Mark): Record<string, string> => ({ [variable]: value });

const markedProcesses = ({ variable, value }: Mark): number[] => processesWith(variable, value);

/** Whether this process carries the mark. */
export const isMarkedWith = ({ variable, value }: Mark, pid: number): boolean =>
  environmentHas(pid, variable, value);

/** Whether any process with this mark is alive. `leader` is undefined where it is not known. */
export function isAnyAlive(mark: Mark, leader: ProcessIdentity | undefined): boolean {
  return (leader !== undefined && isAlive(leader)) || markedProcesses(mark).length > 0;
}

/**
 * Sends SIGTERM to the leader only, which is to end its own children, or SIGKILL to the leader's group and to every
 * other process with the mark. Without a living leader, either signal goes to all processes with the mark. False when
 * there was no process to signal.
 */
export function signalMarked(
  mark: Mark,
  leader: ProcessIdentity | undefined,
  name: 'SIGTERM' | 'SIGKILL',
): boolean {
  const leads = leader !== undefined && isAlive(leader);
  if (leads) signal(name === 'SIGKILL' ? -leader.pid : leader.pid, name);
  if (leads && name === 'SIGTERM') return true;
  const marked = markedProcesses(mark);
  for (const pid of marked) signal(pid, name);
  return leads || marked.length > 0;
}

/** A process with this mark that leads a process group. That is the leader, unless a child has made its own group. */
export function findLeader(mark: Mark): ProcessIdentity | undefined {
  const leader = markedProcesses(mark).find(leadsGroup);
  return leader === undefined ? undefined : identityOf(leader);
}

/** How long ended processes may take to disappear; afterwards they count as ended all the same. */
const CLEAN_UP = { everyMs: 10, atMostMs: 5000 };

/** Ends all processes with a mark, also those that are started meanwhile. */
export async function endMarked(env: Env, mark: Mark): Promise<void> {
  await poll(env, CLEAN_UP, () => (signalMarked(mark, undefined, 'SIGKILL') ? undefined : true));
}
