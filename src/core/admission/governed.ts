/**
 * Governance at admission: refuses what the rules forbid, records broken rules, and changes the mode.
 *
 * M1  A change of the mode is in force from the step that makes it: no job is claimed in that step that it forbids.
 * M2  A critical violation and the LOCKDOWN that follows from it are one commit, in which the tree that broke the rule is
 *     cancelled.
 *     A tree of more jobs than one step may cancel is noted in the record until the last of them is cancelled.
 * M3  Work that waits to be pulled when the mode changes has certainly not begun: it goes back to the queue, and starts again
 *     where the new mode allows it.
 */
import { OrchdError } from '../../model/errors.ts';
import {
  ESCALATIONS,
  GOVERNANCE_ID,
  type GovernanceRecord,
  KEPT_VIOLATIONS,
  MOVES,
  type Mode,
  type StoppedTree,
  type Violation,
} from '../../model/governance.ts';
import { uidOf } from '../../model/records.ts';
import { cancel } from '../attempts/operator-commands.ts';
import { takeBack } from '../attempts/progress.ts';
import { deniedError, noteVerdict } from '../scheduling/denied.ts';
import { isOpenTo, judgeJob } from '../state/governed-job.ts';
import type { State } from '../state/state.ts';
import type { Turn } from '../turn.ts';
import { limitMode } from './quota.ts';
import { ancestorsOf } from './route.ts';
import type { Submission } from './submission.ts';

/** Throws GOVERNANCE_DENIED or APPROVAL_REQUIRED for a job that may not be admitted in the present mode. */
export function checkGovernance(turn: Turn, submission: Submission): void {
  const { governance } = turn.state;
  if (isOpenTo(turn.state, submission.spec)) return;
  const ancestors = ancestorsOf(turn, submission);
  const { tenant, id, spec, route } = submission;
  const verdict = judgeJob(turn.state, { tenant, spec, ancestors, route }, spec.model);
  if (verdict.is === 'allow') return;
  const job = { id, tenant, tool: spec.tags?.['tool'], root: uidOf(tenant, ancestors?.[0] ?? id) };
  noteVerdict(turn, job, verdict);
  if (!governance.gate.isShadow) throw deniedError(verdict);
}

/** M2. While the disk is full only what stops work is recorded; other calls are refused all the same. */
export function recordViolation(
  turn: Turn,
  { violation, root, why }: { readonly violation: Violation; readonly root: string; readonly why: string },
): void {
  const { record } = turn.state.governance;
  const { rule, job, isCritical, isShadow } = violation;
  const isToStop = isCritical && !isShadow;
  if (turn.state.full && !isToStop) return;
  const last = [...record.last, violation].slice(-KEPT_VIOLATIONS);
  const noted = { ...record, violations: record.violations + 1, last };
  turn.put('governance', GOVERNANCE_ID, noted, { is: 'violation', rule, job });
  if (!isToStop) return;
  const now = record.mode === 'LOCKDOWN' ? noted : enter(turn, noted, { mode: 'LOCKDOWN', by: rule, why });
  const tree: StoppedTree = { root, rule };
  if (!stopTree(turn, tree)) putStopping(turn, [...(now.stopping ?? []), tree]);
}

/** Returns whether all jobs of the tree are cancelled now. The jobs above the others may have left memory. */
function stopTree(turn: Turn, { root, rule }: StoppedTree): boolean {
  const { jobs, roster } = turn.state;
  return (!jobs.has(root) && roster.descendants(root).size === 0) || !cancel(turn, root, rule).isPartial;
}

function putStopping(turn: Turn, stopping: readonly StoppedTree[]): void {
  const { stopping: _, ...record } = turn.state.governance.record;
  const after = stopping.length === 0 ? record : { ...record, stopping };
  turn.put('governance', GOVERNANCE_ID, after, 'cancel');
}

export const hasTreesToStop = ({ governance, full }: State): boolean =>
  governance.record.stopping !== undefined && !full;

/** Goes on with the first of the trees whose jobs are still to be cancelled (M2). */
export function stopTrees(turn: Turn): void {
  const [first, ...rest] = turn.state.governance.record.stopping ?? [];
  if (first && hasTreesToStop(turn.state) && stopTree(turn, first)) putStopping(turn, rest);
}

export interface ModeOrder {
  readonly mode: Mode;
  /** A person, or `trigger:<name>`. */
  readonly by: string;
  readonly why: string;
  /** A person may also lead the way back. */
  readonly isPerson: boolean;
}

/** Changes the mode. Throws ILLEGAL_STATE for a move that the present mode does not have. */
export function setMode(turn: Turn, { isPerson, ...order }: ModeOrder): GovernanceRecord {
  const { record } = turn.state.governance;
  const allowed = (isPerson ? MOVES : ESCALATIONS)[record.mode];
  if (allowed.includes(order.mode)) return enter(turn, record, order);
  const ways =
    allowed.length === 0 ? 'nothing leads away from it' : `from here it can be ${allowed.join(' or ')}`;
  throw new OrchdError('ILLEGAL_STATE', `the mode is ${record.mode}, and cannot be ${order.mode}: ${ways}`);
}

function enter(
  turn: Turn,
  record: GovernanceRecord,
  { mode, by, why }: Pick<ModeOrder, 'mode' | 'by' | 'why'>,
): GovernanceRecord {
  const after: GovernanceRecord = { ...record, mode, by, why, since: turn.now };
  turn.put('governance', GOVERNANCE_ID, after, { is: 'mode', to: mode, by });
  limitMode(turn);
  // Workers that no job could use before may be ordered now.
  turn.state.pools.changed = true;
  // M3.
  for (const entry of turn.state.pulled.unclaimed()) takeBack(turn, entry, 'not-run');
  return after;
}
