/**
 * Calls of tools that a person must allow. Such a call is first a job of type APPROVAL_TYPE, which waits for an answer and
 * does nothing else; the run makes the call itself only after that job has ended with a yes.
 *
 * A1  An answer is for one job and one wait: the core takes no second one, and none after the wait has ended.
 * A2  What was allowed is what is called: tool and arguments are in the payload, which cannot be changed. Other arguments
 *     are another call.
 * A3  No answer is a no.
 */
import type { FunctionContext } from '../backends/local/functions.ts';
import type { Approval, CallToApprove } from '../model/run-jobs.ts';

/** The answer to a job that waits for approval. */
export interface ApprovalAnswer {
  readonly approve: boolean;
  readonly by: string;
  readonly why?: string;
}

/** The function of jobs of type APPROVAL_TYPE. */
export function awaitApproval({ waitMs }: CallToApprove, context: FunctionContext): unknown {
  const { waited } = context;
  if (!waited) return context.wait({ state: null, forMs: waitMs });
  if (waited.woken !== 'answer')
    return { approved: false, why: 'nobody answered in time' } satisfies Approval;
  const { approve, by, why } = waited.answer as ApprovalAnswer;
  return { approved: approve === true, by, ...(why !== undefined && { why }) } satisfies Approval;
}
