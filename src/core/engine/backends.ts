/** Backends: what they are, and whether they can be reached. */
import { claimBackend } from '../admission/lease.ts';
import { lost } from '../attempts/progress.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { EngineTurn, Handlers } from './handler.ts';

export type BackendEvent =
  /** A backend is there, or what it declares has changed. */
  | { readonly type: 'backend'; readonly info: BackendInfo }
  /** A backend is gone, and nothing can be asked of it. */
  | { readonly type: 'backend-gone'; readonly name: string }
  | { readonly type: 'reachable'; readonly name: string; readonly up: boolean };

export const backends = {
  backend: (turn, { info }) => {
    turn.fleet.put(info);
    place(turn, info);
  },
  'backend-gone': (turn, { name }) => {
    loseAll(turn, name);
    turn.fleet.remove(name);
  },
  reachable: (turn, { name, up }) => turn.fleet.setUp(name, up),
} satisfies Handlers<BackendEvent>;

/** At every tick: a backend that is at another node may have become free to move to this one. */
export function placeAway(turn: EngineTurn): void {
  for (const { away, info } of turn.fleet.backends.values()) if (away) place(turn, info);
}

/** Attempts at a backend that is at another node are as good as lost, until that node leads or somebody settles them. */
function place(turn: EngineTurn, info: BackendInfo): void {
  const away = !claimBackend(turn, info);
  turn.fleet.setAway(info.name, away);
  if (away) loseAll(turn, info.name);
}

function loseAll(turn: EngineTurn, backend: string): void {
  for (const entry of [...turn.state.open.values()]) {
    if (entry.open?.backend === backend) lost(turn, entry);
  }
}
