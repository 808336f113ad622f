/** What becomes of a job that the rules of governance do not allow, at admission and at a claim. */
import { OrchdError } from '../../model/errors.ts';
import type { Violation } from '../../model/governance.ts';
import { uidOf } from '../../model/records.ts';
import type { Verdict } from '../governance/gate.ts';
import { modelOf } from '../queue/queue.ts';
import { judgeJob } from '../state/governed-job.ts';
import type { JobEntry } from '../state/job-entry.ts';
import type { EngineView, Turn } from '../turn.ts';

export type Denial = Exclude<Verdict, { is: 'allow' }>;

export const deniedError = ({ is, message }: Denial): OrchdError =>
  new OrchdError(is === 'deny' ? 'GOVERNANCE_DENIED' : 'APPROVAL_REQUIRED', message);

export const isCritical = (denial: Denial): boolean => denial.is === 'deny' && denial.isCritical;

interface JudgedJob {
  readonly id: string;
  readonly tenant: string;
  readonly tool: string | undefined;
  /** The uid of the job at the top of its tree. */
  readonly root: string;
}

/** A call that needs an approval breaks no rule, unless nobody asks for one: in shadow mode it is noted. */
export function noteVerdict(turn: Turn, job: JudgedJob, verdict: Denial): void {
  const { isShadow } = turn.state.governance.gate;
  if (verdict.is === 'approve' && !isShadow) return;
  const { id, tenant, tool, root } = job;
  const violation: Violation = {
    at: turn.now,
    job: id,
    tenant,
    rule: verdict.rule,
    ...(tool !== undefined && { tool }),
    isCritical: isCritical(verdict),
    isShadow,
  };
  turn.noteEnd({ is: 'violation', violation, root, why: verdict.message });
}

/** What forbids the job to start now. Where the rules are not in force, its admission has noted it. */
export function whyDenied({ state }: EngineView, entry: JobEntry): Denial | undefined {
  if (state.governance.gate.isShadow) return undefined;
  const verdict = judgeJob(state, entry.ask, modelOf(entry));
  return verdict.is === 'allow' ? undefined : verdict;
}

export function noteDenied(turn: Turn, { ask }: JobEntry, denial: Denial): void {
  const { id, tenant, spec, ancestors } = ask;
  noteVerdict(
    turn,
    { id, tenant, tool: spec.tags?.['tool'], root: uidOf(tenant, ancestors?.[0] ?? id) },
    denial,
  );
}
