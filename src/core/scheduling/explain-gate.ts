/** Explains in words why a gate lets no more jobs through, and until when. */

import { jobKindOf } from '../../model/governance.ts';
import type { WaitReason } from '../../model/http/jobs.ts';
import { startsNone } from '../governance/governance.ts';
import type { Gate } from '../limits/gate.ts';
import { maySee, scopes, writtenScope } from '../limits/limit.ts';
import { ModeGate } from '../limits/mode-gate.ts';
import { RetryGate } from '../limits/retry-gate.ts';
import type { Lane } from '../queue/fleet.ts';
import { gateOf as waitsAt } from '../queue/gate-lists.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { State } from '../state/state.ts';

/** The gate at which the job is parked; undefined if it is parked at none, or limits were just replaced. */
export const gateOf = (entry: JobEntry): Gate | undefined =>
  entry.parked === 'quota' ? waitsAt(entry) : undefined;

/** The gate that holds up a lane. A lane without a free backend was not looked at, so its gate may be out of date. */
export const gateOfLane = (lane: Lane | undefined): Gate | undefined =>
  lane && lane.freeBackends > 0 ? lane.held?.by : undefined;

export const explainGate = ({ governance }: State, gate: Gate, { ask }: JobEntry): WaitReason => ({
  code: 'quota',
  text: gate instanceof ModeGate ? modeText(gate, governance.mode) : textOf(gate, ask.tenant),
});

function modeText({ name, limit, isOverRate }: ModeGate, mode: string): string {
  const kind = name.slice(scopes.mode('').length);
  return isOverRate
    ? `in the mode ${mode}, ${limit.perMinute} ${kind} start in a minute`
    : `in the mode ${mode}, ${limit.running} ${kind} run at once`;
}

/** Why nothing of the job's kind starts in the present mode; undefined in a mode in which something does. */
export function explainMode({ governance }: State, { ask }: JobEntry): WaitReason | undefined {
  const { record } = governance;
  const kind = jobKindOf(ask.spec);
  if (kind === undefined || !startsNone(governance, kind)) return undefined;
  const since = new Date(record.since).toISOString();
  const text = `the mode is ${record.mode} since ${since}, set by "${record.by}": ${record.why}`;
  return { code: 'governance', text };
}

function textOf(gate: Gate, tenant: string): string {
  if (gate instanceof RetryGate)
    return 'other retries go first: retries on providers are a share of the first starts there';
  const { limit } = gate;
  const scope = writtenScope(gate.name);
  const isOwn = maySee(scope, tenant);
  if (limit.running === 0) return `"${scope}" is paused: its limit of running jobs is 0`;
  if (limit.running !== undefined && (gate.room <= 0 || !gate.isHard))
    return `"${scope}" runs as many jobs as it may${isOwn ? `: ${limit.running}` : ''}`;
  if (!gate.isHard) return `other jobs of "${scope}" go first`;
  const numbers = isOwn
    ? `: of ${limit.costBudget} millionths ${gate.settled} are spent and ${gate.reserved} reserved`
    : '';
  const rolls = Number.isFinite(gate.rollsAt)
    ? `; it starts anew at ${new Date(gate.rollsAt).toISOString()}`
    : '';
  return `the budget of "${scope}" has no room for it${numbers}${rolls}`;
}
