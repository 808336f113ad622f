/** Limits and prices of the simulated worlds that have some, and what must hold there. */
import type { EngineView } from '../../src/core/turn.ts';
import type { LimitSpec } from '../../src/model/limit-records.ts';
import type { PriceSpec } from '../../src/model/price.ts';
import type { AttemptRecord, Change } from '../../src/model/records.ts';
import { usesSlot } from '../../src/model/states.ts';
import { check } from './check.ts';

const RUNNING = 3;

/** The budget is hard and never reached: what is settled must be every bill, through all restarts. */
export const LIMITS: readonly LimitSpec[] = [
  { scope: 'global', running: RUNNING, costBudget: 1e9, hard: true },
  { scope: 'agent:*', running: 2 },
];

/** Each execution has a price, whatever it uses. */
export const PRICES: readonly PriceSpec[] = [{ model: '*', request: 7 }];

export function checkGates({ state, queue }: EngineView): void {
  const gate = queue.gates.find('global', 0);
  if (!gate) return;
  const open = [...state.open.values()].flatMap(({ open }) => open ?? []);
  const running = open.filter(usesSlot).length;
  check(gate.running === running, `${running} attempts run, and the gate counts ${gate.running}`);
  check(running <= RUNNING, `${running} attempts run, and at most ${RUNNING} may`);
  const reserved = open.reduce((sum, { bill }) => sum + (bill?.reserved ?? 0), 0);
  check(gate.reserved === reserved, `${reserved} is reserved, and the gate counts ${gate.reserved}`);
}

/** The budget has settled what the closed attempts in the log have cost. */
export function checkSettled({ queue }: EngineView, changes: readonly Change[]): void {
  const gate = queue.gates.find('global', 0);
  if (!gate) return;
  const closed = new Map<string, AttemptRecord>();
  for (const change of changes)
    if (change.kind === 'attempt' && change.after?.bill?.cost !== undefined)
      closed.set(change.id, change.after);
  const billed = [...closed.values()].reduce((sum, { bill }) => sum + (bill?.cost ?? 0), 0);
  check(gate.settled === billed, `${billed} was billed, and ${gate.settled} is settled`);
  check(gate.reserved === 0, `nothing is open, and ${gate.reserved} is reserved`);
}
