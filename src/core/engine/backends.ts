/** Events of backends: what they declare, and whether they can be reached. */
import { claimBackend } from '../admission/lease.ts';
import { putBackend, setReachable } from '../attempts/foreign.ts';
import { found, killed, lost } from '../attempts/progress.ts';
import type { BackendInfo } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineTurn, Handlers } from './handler.ts';

export type BackendEvent =
  /** A backend is present, or its declaration has changed. */
  | { readonly type: 'backend'; readonly info: BackendInfo }
  /** A backend is gone for good: its attempts can no longer be inspected or killed. */
  | { readonly type: 'backend-gone'; readonly name: string }
  /** A backend that was busy takes jobs again. */
  | { readonly type: 'backend-free'; readonly name: string }
  | { readonly type: 'reachable'; readonly name: string; readonly up: boolean };

export const backends = {
  backend: (turn, { info }) => {
    putBackend(turn, info);
    noteOutage(turn, info);
    claimForNode(turn, info);
  },
  'backend-gone': (turn, { name }) => {
    for (const entry of openOn(turn, name)) forget(turn, entry);
    turn.fleet.remove(name);
  },
  'backend-free': ({ fleet }, { name }) => fleet.unblockEarly(name),
  reachable: (turn, { name, up }) => setReachable(turn, name, up),
} satisfies Handlers<BackendEvent>;

function noteOutage({ fleet, now }: EngineTurn, { name, outage }: BackendInfo): void {
  const backend = fleet.backends.get(name);
  if (backend) backend.outageSince = outage === undefined ? undefined : (backend.outageSince ?? now);
}

/** At every tick: a backend at another node can move to this one once nothing is open on it. */
export function reclaimAway(turn: EngineTurn): void {
  for (const { away, info } of turn.fleet.backends.values()) if (away) claimForNode(turn, info);
}

/** Attempts on a backend at another node become unknown, until that node leads again or an operator resolves them. */
function claimForNode(turn: EngineTurn, info: BackendInfo): void {
  const away = !claimBackend(turn, info);
  turn.fleet.setAway(info.name, away);
  if (away) for (const entry of openOn(turn, info.name)) lost(turn, entry);
}

const openOn = ({ state }: EngineTurn, backend: string): JobEntry[] =>
  [...state.open.values()].filter(({ open }) => open?.backend === backend);

/** The attempt's fate cannot be learned: a kill order counts as carried out, otherwise `on_unknown` decides. */
function forget(turn: EngineTurn, entry: JobEntry): void {
  if (entry.open?.kill) killed(turn, entry, { is: 'forgotten' });
  else found(turn, entry, { is: 'forgotten' });
}
