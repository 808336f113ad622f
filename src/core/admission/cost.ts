/** Refuses jobs that no budget could ever hold: others wait for their budgets when they are to start. */
import { OrchdError } from '../../model/errors.ts';
import type { Reason } from '../../model/reasons.ts';
import { StartChecks } from '../scheduling/start-checks.ts';
import type { Turn } from '../turn.ts';
import { ancestorsOf } from './route.ts';
import type { Submission } from './submission.ts';

export function checkCost(turn: Turn, submission: Submission): void {
  if (!turn.queue.gates.hasHard) return;
  const ask = { ...submission, ancestors: ancestorsOf(turn, submission) };
  const checks = new StartChecks(turn, ask, submission.spec.model, turn.now);
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
