/** Refuses jobs that no budget could ever hold: others wait for their budgets when they are to start. */
import { type ErrorInfo, OrchdError } from '../../model/errors.ts';
import type { Reason } from '../../model/reasons.ts';
import { StartChecks } from '../scheduling/start-checks.ts';
import type { Turn } from '../turn.ts';
import { ancestorsOf } from './route.ts';
import type { Submission } from './submission.ts';

export function checkCost(turn: Turn, submission: Submission): void {
  if (!turn.queue.gates.hasHard) return;
  const ancestors = ancestorsOf(turn, submission);
  const ask = ancestors ? { ...submission, ancestors } : submission;
  const checks = new StartChecks(turn, ask, submission.spec.model, turn.now);
  let refusal: OrchdError | undefined;
  for (const backend of turn.fleet.findOrCreateLane(submission).backends) {
    const obstacle = checks.obstacle(backend, () => false);
    if (!obstacle || !('never' in obstacle)) return;
    refusal ??= refusalOf(obstacle.never, submission);
  }
  if (refusal) throw refusal;
}

function refusalOf({ message, reason }: ErrorInfo, submission: Submission): OrchdError {
  if (reason !== 'unbounded_cost')
    return new OrchdError('ADMISSION_REJECT', message, { reason: reason as Reason });
  const field = unboundedField(submission);
  const advice = BOUNDS.has(field) ? 'give it' : 'leave it out';
  const text = `a hard budget applies, and "${field}" leaves open what the job costs at most: ${advice}`;
  return new OrchdError('ADMISSION_REJECT', text, { reason: 'unbounded_cost', field });
}

/** Fields that bound the cost if they are given. */
const BOUNDS: ReadonlySet<string> = new Set(['max_tokens', 'timeout_ms']);

function unboundedField({ unboundedBy, maxOutput, images = 0 }: Submission): string {
  if (unboundedBy !== undefined || maxOutput === undefined) return unboundedBy ?? 'max_tokens';
  return images > 0 ? 'content.image_url' : 'timeout_ms';
}
