/**
 * Finds entries of a stream to the brain that no read would bring any more: given to another name of the group, which has
 * not acknowledged them for a while, or passed by the group, which somebody has made anew at a later place or moved.
 */
import type { Reply } from '../../backends/stream/client.ts';
import type { RedisConnection } from '../../backends/stream/connection.ts';
import { entriesIn } from '../../backends/stream/entry.ts';
import { groupIn, isPassed, pendingCommands } from '../../backends/stream/group.ts';
import { BRAIN, type StreamPlace } from '../../backends/stream/names.ts';

/** Entries that are looked at together. */
const PAGE = 100;
/** Pages of one look: what is behind them is found by a later one, when these are done. */
const MAX_PAGES = 20;

type Caller = Pick<RedisConnection, 'call' | 'pipeline'>;

/** Returns whether entries are now pending for the brain that were not before. */
export async function reclaim(connection: Caller, place: StreamPlace, idleMs: number): Promise<boolean> {
  const { key, group } = place;
  const groups = await connection.pipeline([['XINFO', 'GROUPS', key]]);
  const found = groupIn(groups[0], group);
  // The next read makes the group, and brings everything.
  if (!found) return false;
  await unpass(connection, place, found.lastDelivered);
  let isAny = false;
  let cursor = '0-0';
  for (let page = 0; page < MAX_PAGES; page++) {
    const reply = (await connection.call([
      ...['XAUTOCLAIM', key, group, BRAIN, String(idleMs), cursor],
      ...['COUNT', String(PAGE), 'JUSTID'],
    ])) as readonly Reply[];
    isAny ||= Array.isArray(reply[1]) && reply[1].length > 0;
    cursor = String(reply[0]);
    if (cursor === '0-0') break;
  }
  return isAny;
}

/** Lets the group begin anew where it has passed entries that nobody has: those that somebody has come a second time. */
async function unpass(connection: Caller, place: StreamPlace, lastDelivered: string): Promise<void> {
  const { key, group } = place;
  const read = await connection.call(['XRANGE', key, '-', lastDelivered, 'COUNT', String(PAGE)]);
  const ids = entriesIn(read).map(({ id }) => id);
  if (ids.length === 0) return;
  const pending = await connection.pipeline(pendingCommands(place, ids));
  if (pending.some(isPassed)) await connection.call(['XGROUP', 'SETID', key, group, '0']);
}
