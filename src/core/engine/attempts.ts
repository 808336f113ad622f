/** Events of attempts: reports of executors. They may be late, repeated, or about closed attempts. */
import { endAttempt } from '../attempts/ending.ts';
import { found, killed, lost, offered } from '../attempts/progress.ts';
import type { Finding, KillAnswer, OfferAnswer } from '../attempts/reports.ts';
import type { Outcome } from '../ports/backend.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineTurn, Handlers } from './handler.ts';

export interface Acceptance {
  /** When the executor accepted the attempt, as far as this brain knows: it counts where it was not recorded. */
  readonly acceptedAt?: number | undefined;
}

export type AttemptEvent =
  | (Acceptance & { readonly type: 'offered'; readonly token: string; readonly answer: OfferAnswer })
  | { readonly type: 'found'; readonly token: string; readonly finding: Finding }
  | { readonly type: 'killed'; readonly token: string; readonly answer: KillAnswer }
  | (Acceptance & { readonly type: 'outcome'; readonly token: string; readonly outcome: Outcome })
  | { readonly type: 'lost'; readonly token: string }
  /** An attempt has produced its first output. */
  | { readonly type: 'output'; readonly token: string };

export const attempts = {
  offered: ofOpen((turn, entry, { answer, acceptedAt }) => offered(turn, entry, answer, acceptedAt)),
  found: ofOpen((turn, entry, { finding }) => found(turn, entry, finding)),
  killed: ofOpen((turn, entry, { answer }) => killed(turn, entry, answer)),
  outcome: ofOpen((turn, entry, { outcome, acceptedAt }) => endAttempt(turn, entry, outcome, acceptedAt)),
  lost: ofOpen((turn, entry) => lost(turn, entry)),
  output: ofOpen((_, entry) => {
    entry.outputAttempt = entry.open?.n ?? entry.outputAttempt;
  }),
} satisfies Handlers<AttemptEvent>;

/** Ignores reports about closed attempts, and about attempts whose backend is at another node. */
function ofOpen<E extends { readonly token: string }>(
  handle: (turn: EngineTurn, entry: JobEntry, event: E) => void,
): (turn: EngineTurn, event: E) => void {
  return (turn, event) => {
    const entry = turn.state.open.get(event.token);
    if (entry?.open && !turn.fleet.isAway(entry.open.backend)) handle(turn, entry, event);
  };
}
