/**
 * Decides whether the next job of a lane may start now, on which backend, and what it holds back of its budgets; if not,
 * where it waits. Nothing is changed here.
 */
import type { ErrorInfo } from '../../model/errors.ts';
import type { Bill } from '../../model/price.ts';
import type { Gate } from '../limits/gate.ts';
import type { BackendEntry, Lane } from '../queue/fleet.ts';
import type { WaitsFor } from '../queue/gate-lists.ts';
import { modelOf } from '../queue/queue.ts';
import type { EngineSettings } from '../settings.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineView } from '../turn.ts';
import { place } from './placement/place.ts';
import { StartChecks } from './start-checks.ts';

export type Start =
  | {
      readonly is: 'go';
      readonly backend: BackendEntry;
      readonly reason: string;
      readonly bill: Bill | undefined;
    }
  /** The job waits at a narrow gate; others of its lane may go on. */
  | {
      readonly is: 'at-gate';
      readonly gate: Gate;
      readonly why: WaitsFor;
      /** All gates of the job, the narrowest first. */
      readonly gates: readonly Gate[];
    }
  /** The whole lane waits, until gates let more through. */
  | { readonly is: 'held'; readonly gate: Gate | undefined }
  /** The job cannot ever start. */
  | { readonly is: 'never'; readonly error: ErrorInfo };

export type StartSettings = Pick<EngineSettings, 'pools' | 'prices' | 'sticky'>;

const HELD: Start = { is: 'held', gate: undefined };

export function mayStart(
  view: EngineView,
  settings: StartSettings,
  lane: Lane,
  entry: JobEntry,
  now: number,
): Start {
  const { state, queue } = view;
  const gates = queue.gatesOf(entry, now);
  const checks = new StartChecks({ state, queue, settings }, entry.ask, modelOf(entry), now, gates);
  const full = gates.find((gate) => queue.isFull(gate, entry));
  if (full) return waitAt(checks, full, 'running');
  const isLimited = !queue.gates.isEmpty;
  const isBehind = (gate: Gate): boolean => queue.isBehind(gate, entry);
  const mayUse = isLimited
    ? (backend: BackendEntry): boolean => !checks.obstacle(backend, isBehind)
    : undefined;
  const placed = place(view, settings, lane, entry, mayUse);
  if (!placed) return isLimited ? whyNot(checks, lane, isBehind) : HELD;
  const offer = checks.quote(placed.backend);
  return { is: 'go', ...placed, bill: offer.is === 'priced' ? offer.bill : undefined };
}

const waitAt = ({ gates }: StartChecks, gate: Gate, why: WaitsFor): Start =>
  gate.isBroad ? { is: 'held', gate } : { is: 'at-gate', gate, why, gates };

/** No free backend may be used: where the job waits, or that it never starts. */
function whyNot(checks: StartChecks, lane: Lane, isBehind: (gate: Gate) => boolean): Start {
  let never: ErrorInfo | undefined;
  let waits: Start | undefined;
  for (const backend of lane.backends) {
    const obstacle = checks.obstacle(backend, isBehind);
    if (obstacle && 'never' in obstacle) {
      never ??= obstacle.never;
      continue;
    }
    const found = backend.free ? obstacle : undefined;
    if (found && !found.gate.isBroad) return waitAt(checks, found.gate, found.why);
    if (!waits || found) waits = { is: 'held', gate: found?.gate };
  }
  if (waits) return waits;
  return never ? { is: 'never', error: never } : HELD;
}
