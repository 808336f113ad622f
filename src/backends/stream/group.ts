/** Reads the state of a consumer group: how far it has read, and which entries it has given to nobody. */
import type { Command, Reply } from './client.ts';
import type { StreamPlace } from './names.ts';

export interface Group {
  readonly lastDelivered: string;
}

/** Of a reply of XINFO GROUPS; undefined where there is no such group. */
export function groupIn(reply: Reply | undefined, name: string): Group | undefined {
  for (const flat of Array.isArray(reply) ? (reply as readonly (readonly Reply[])[]) : []) {
    const value = (field: string): string => String(flat[flat.indexOf(field) + 1]);
    if (value('name') === name) return { lastDelivered: value('last-delivered-id') };
  }
  return undefined;
}

/** Asks whether entries are pending; `isPassed` reads each reply. */
export const pendingCommands = ({ key, group }: StreamPlace, ids: readonly string[]): Command[] =>
  ids.map((id) => ['XPENDING', key, group, id, id, '1']);

/** Nobody has the entry, and the group has read beyond it. */
export const isPassed = (reply: Reply | undefined): boolean => Array.isArray(reply) && reply.length === 0;

export function compareIds(a: string, b: string): number {
  const [aMs = 0, aSeq = 0] = a.split('-').map(Number);
  const [bMs = 0, bSeq = 0] = b.split('-').map(Number);
  return aMs - bMs || aSeq - bSeq;
}
