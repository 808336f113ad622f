/** Refuses jobs that no budget could ever hold: others wait for their budgets when they are to start. */
import { OrchdError } from '../../model/errors.ts';
import type { Reason } from '../../model/reasons.ts';
import { uidOf } from '../../model/records.ts';
import { StartChecks } from '../scheduling/start-checks.ts';
import type { Turn } from '../turn.ts';
import type { Submission } from './submission.ts';

export function checkCost(turn: Turn, submission: Submission): void {
  if (!turn.queue.gates.hasHard) return;
  const { spec, tenant } = submission;
  const parent =
    spec.parent_id === undefined ? undefined : turn.state.jobs.get(uidOf(tenant, spec.parent_id));
  const ancestors = parent && [...(parent.ask.ancestors ?? []), parent.ask.id];
  const checks = new StartChecks(turn, { ...submission, ancestors }, spec.model, turn.now);
  let refusal: OrchdError | undefined;
  for (const backend of turn.fleet.findOrCreateLane(submission).backends) {
    const obstacle = checks.obstacle(backend, () => false);
    if (!obstacle || !('never' in obstacle)) return;
    const { message, reason } = obstacle.never;
    const field = reason === 'unbounded_cost' ? { field: 'max_tokens' } : {};
    refusal ??= new OrchdError('ADMISSION_REJECT', message, { reason: reason as Reason, ...field });
  }
  if (refusal) throw refusal;
}
