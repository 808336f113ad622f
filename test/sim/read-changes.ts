/** Reads the raw log of a simulated brain. */
import type { Change } from '../../src/model/records.ts';
import { paths } from '../../src/stores/journal/layout.ts';
import { decodeChanges } from '../../src/stores/journal/log/codec.ts';
import { listSegments, readLog } from '../../src/stores/journal/log/segments.ts';
import type { SimDisk } from '../fakes/sim-disk.ts';
import type { World } from '../fakes/world.ts';
import { FOLDER } from './brain.ts';
import { check } from './check.ts';

export const readChanges = async (world: World, disk: SimDisk): Promise<Change[]> =>
  (await readFrames(world, disk)).flat();

/** The changes of each frame of the log: a fault leaves all of them, or none. */
export async function readFrames(world: World, disk: SimDisk): Promise<Change[][]> {
  const reader = disk.for({ alive: true });
  const { log } = paths(FOLDER);
  const frames: Change[][] = [];
  const reading = listSegments(reader, log).then((segments) =>
    readLog(reader, log, { nextSeq: segments[0]?.firstSeq ?? 1, chain: undefined }, ({ header, payload }) => {
      frames.push(decodeChanges(payload, header.count));
    }),
  );
  await answer(world, reading);
  return frames;
}

/** Lets the world go on until the promise has settled. */
export async function answer<T>(world: World, promise: Promise<T>): Promise<T> {
  let settled = false;
  const watched = promise.finally(() => {
    settled = true;
  });
  watched.catch(() => undefined);
  await world.runUntil(() => settled, 120_000);
  check(settled, 'an answer comes');
  return watched;
}
