/** A backend that knows another copy of the store gets no work until the store is said to be a copy (docs/decisions/0024). */
import type { BackendInfo } from '../ports/backend.ts';
import type { Turn } from '../turn.ts';
import { isPaused } from './bill.ts';

const isForeign = ({ state }: Turn, name: string): boolean =>
  state.brain?.disagreements?.some((each) => each.isForeign && each.backend === name) ?? false;

/** Adds a backend or replaces its declaration. */
export function putBackend(turn: Turn, info: BackendInfo): void {
  turn.queue.putBackend(info, turn.now);
  if (isForeign(turn, info.name)) turn.fleet.setUp(info.name, false);
  turn.fleet.setPaused(info.name, isPaused(turn, info.name));
}

/** Notes whether a backend answers. */
export function setReachable(turn: Turn, name: string, answers: boolean): void {
  turn.fleet.setUp(name, answers && !isForeign(turn, name));
}
