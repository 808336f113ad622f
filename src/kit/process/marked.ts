/**
 * A process with everything that it has started. All of them carry the same mark in their environment, so that they are
 * found again whoever their parent is by then, and where their pid was never written down.
 */
import { identityOf, isAlive, leadsGroup, type ProcessIdentity, processesWith, signal } from './identity.ts';

export interface Mark {
  readonly variable: string;
  readonly value: string;
}

/** The variable that a process is started with to carry the mark. */
export const markVariable = ({ variable, value }: Mark): Record<string, string> => ({ [variable]: value });

const markedProcesses = ({ variable, value }: Mark): number[] => processesWith(variable, value);

/** Whether any of them is alive; `leader` is the first of them, where it is known. */
export function isAnyAlive(mark: Mark, leader: ProcessIdentity | undefined): boolean {
  return (leader !== undefined && isAlive(leader)) || markedProcesses(mark).length > 0;
}

/**
 * SIGTERM is for the leader alone: what it has started is its own to end. SIGKILL is for its group, and for whatever
 * else carries the mark. Without a living leader all get either. False when there was nobody to get it.
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

/** One of them that leads a process group: the first of them, unless what it has started leads groups too. */
export function findLeader(mark: Mark): ProcessIdentity | undefined {
  const leader = markedProcesses(mark).find(leadsGroup);
  return leader === undefined ? undefined : identityOf(leader);
}
