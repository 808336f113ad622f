/** Explains in words why a job waits. */

import type { WaitReason } from '../../model/http/jobs.ts';
import { isTerminal } from '../../model/states.ts';
import { scopes } from '../limits/limit.ts';
import { type BackendEntry, laneOf } from '../queue/fleet.ts';
import type { StickyWait } from '../queue/sticky.ts';
import { awaitedBy, awaitedIds } from '../state/end-waiters.ts';
import type { JobEntry } from '../state/job-entry.ts';
import { backendLeaseId } from '../state/leases.ts';
import type { State } from '../state/state.ts';
import { explainGate, explainMode, gateOf, gateOfLane } from './explain-gate.ts';
import { jobPosition } from './predict.ts';

export function explain(state: State, entry: JobEntry, sticky?: StickyWait): WaitReason | undefined {
  if (isTerminal(entry.job.state)) return undefined;
  if (entry.job.cancel) return { code: 'cancelling', text: 'cancelled; waits for the backend to confirm' };
  if (entry.job.state === 'stale') {
    return { code: 'unknown_outcome', text: `backend "${entry.job.backend}" cannot say what became of it` };
  }
  if (entry.job.state === 'claimed')
    return { code: 'offer', text: `being offered to "${entry.job.backend}"` };
  if (entry.job.state === 'waiting') return { code: 'wait', text: waitText(state, entry) };
  if (entry.job.state !== 'queued') return undefined;
  if (entry.parked === 'paused') return { code: 'paused', text: pauseText(state, entry) };
  if (entry.parked === 'not_before') {
    return { code: 'not_before', text: `waits until ${new Date(entry.waitsUntil).toISOString()}` };
  }
  if (entry.parked === 'after') return explainAfter(state, entry);
  if (entry.parked === 'session') {
    const head = state.roster.sessionHead(entry);
    return { code: 'session_busy', text: `job "${head?.ask.id}" of the same session goes first` };
  }
  const halted = explainMode(state, entry);
  if (halted) return halted;
  if (sticky) return { code: 'sticky', text: stickyText(sticky) };
  const gate = gateOf(entry);
  return gate ? explainGate(state, gate, entry) : explainLane(state, entry);
}

function pauseText({ pauses }: State, entry: JobEntry): string {
  const above = pauses.pausedAbove(entry);
  if (above !== undefined) return `job "${above}" above it is paused`;
  return `paused by "${entry.job.paused?.by}"`;
}

const stickyText = ({ list, until }: StickyWait): string =>
  `waits for "${list.backend.info.name}", which has its conversation, at most until ${new Date(until).toISOString()}`;

const explainAfter = (state: State, entry: JobEntry): WaitReason => ({
  code: 'after',
  text: `waits for ${endsText(state, entry, 'and')}`,
});

/** The jobs that hold up this one. */
function endsText(state: State, entry: JobEntry, link: 'and' | 'or'): string {
  const first = awaitedBy(entry).findIndex((uid) => state.waiters.of(uid)?.held.has(entry));
  const more = entry.waitsFor - 1;
  const others = more === 0 ? '' : more === 1 ? ` ${link} another job` : ` ${link} ${more} other jobs`;
  return `the end of job "${awaitedIds(entry.ask, entry.job)[first]}"${others}`;
}

function waitText(state: State, entry: JobEntry): string {
  const { wait } = entry.job;
  const jobs = entry.waitsFor > 0 && endsText(state, entry, wait?.needs === 'any' ? 'or' : 'and');
  const until = wait?.until !== undefined && `until ${new Date(wait.until).toISOString()}`;
  if (jobs) return `waits for ${jobs}${until ? `, at most ${until}` : ''}`;
  return until ? `waits ${until}, or for an answer` : 'waits for an answer';
}

function explainLane(state: State, entry: JobEntry): WaitReason {
  const lane = laneOf(entry);
  const backends = lane?.backends ?? [];
  const waitsFor = lane?.freeBackends === 0 ? lane.waitsFor : undefined;
  if (waitsFor !== undefined) return { code: 'worker_start', text: waitsFor };
  if (backends.length === 0) {
    const { type, backend, model, labels } = entry.ask.spec;
    const needs = [`type "${type}"`, backend && `kind "${backend}"`, model && `model "${model}"`];
    if (labels) needs.push(...Object.entries(labels).map(([name, value]) => `label ${name}=${value}`));
    const text = `no backend runs ${needs.filter(Boolean).join(', ')}${formerly(lane?.formerBackends)}`;
    return { code: 'no_backend', text };
  }
  if (state.full) return { code: 'disk_full', text: 'the disk is full; nothing new is started' };
  const up = backends.filter(
    ({ up, closed, away, info }) => up && !closed && !away && info.outage === undefined,
  );
  if (up.length === 0) {
    const names = backends.map(({ info, away }) => {
      const node = state.leases.get(backendLeaseId(info.name))?.record.agent;
      if (away) return `"${info.name}" (it runs at node "${node}")`;
      return info.outage === undefined ? `"${info.name}"` : `"${info.name}" (${info.outage})`;
    });
    return { code: 'backend_down', text: `not reachable: ${names.join(', ')}` };
  }
  const usable = up.filter(({ paused }) => !paused);
  if (usable.length === 0) {
    const names = up.map(({ info }) => `"${info.name}"`).join(', ');
    return { code: 'seat_paused', text: `paused, since its provider has billed too much: ${names}` };
  }
  const gate = gateOfLane(lane);
  if (gate) return explainGate(state, gate, entry);
  const position = jobPosition(entry) ?? 0;
  if (position > 0) {
    const jobs = position === 1 ? '1 job goes' : `about ${position} jobs go`;
    return { code: 'behind', text: `${jobs} before it` };
  }
  const busy =
    usable.length === 1
      ? 'the backend that can run it is'
      : `all ${usable.length} backends that can run it are`;
  return { code: 'backend_busy', text: `next; ${busy} busy${blocks(usable)}` };
}

/** Says which backends get no job for now, why, and until when. */
function blocks(backends: readonly BackendEntry[]): string {
  const texts = backends.flatMap(({ info, used, slotLimit, blockedUntil, blockedFor }) => {
    if (blockedFor !== undefined)
      return [`"${info.name}" until ${new Date(blockedUntil).toISOString()} (${blockedFor})`];
    return slotLimit < info.slots && used >= slotLimit
      ? [`"${info.name}" may run ${slotLimit} at once (limit of "${scopes.seat(info.name)}")`]
      : [];
  });
  return texts.length === 0 ? '' : `: ${texts.join(', ')}`;
}

/** Names the backends that had the model of the job and no longer have it. */
function formerly(backends: ReadonlySet<string> = new Set()): string {
  const names = [...backends].map((name) => `"${name}"`).join(', ');
  return names === ''
    ? ''
    : `; ${names} had the model, and no longer ${backends.size > 1 ? 'have' : 'has'} it`;
}
