/** Backends: what they are, and whether they can be reached. */
import { claimBackend } from '../admission/lease.ts';
import { found, killed, lost } from '../attempts/progress.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
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
    for (const entry of openOn(turn, name)) forget(turn, entry);
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
  if (away) for (const entry of openOn(turn, info.name)) lost(turn, entry);
}

const openOn = ({ state }: EngineTurn, backend: string): JobEntry[] =>
  [...state.open.values()].filter(({ open }) => open?.backend === backend);

/** Nobody can say what became of an attempt: an order to end it counts as carried out, else the policy decides. */
function forget(turn: EngineTurn, entry: JobEntry): void {
  if (entry.open?.kill) killed(turn, entry, { is: 'forgotten' });
  else found(turn, entry, { is: 'forgotten' });
}
