/** The routes for calls of tools that a person must allow: which ones wait, and the answer to one. */
import type { ApprovalAnswer } from '../agents/approval.ts';
import { isOfRun } from '../agents/run-place.ts';
import { runView } from '../agents/run-view.ts';
import { OrchdError } from '../model/errors.ts';
import type { JobView } from '../model/http/jobs.ts';
import { ApprovalList, ApprovalQuery, type ApprovalView, ApproveCall, RunView } from '../model/http/runs.ts';
import { APPROVAL_TYPE, type ApprovalTags, type CallToApprove } from '../model/run-jobs.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';
import { jobIdOf } from './tasks.ts';

/** The calls on a page, unless the request names a number. */
const PAGE = 100;

export const approvalRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  listRoute(orchestrator),
  approveRoute(orchestrator),
];

const listRoute = (orchestrator: Orchestrator): Route =>
  route({
    operationId: 'listApprovals',
    tag: 'agents',
    method: 'GET',
    path: '/v2/approvals',
    role: 'read',
    summary: 'The calls of tools that wait for somebody to allow them, the newest first',
    query: ApprovalQuery,
    answers: { 200: { description: 'A page of calls; `cursor` leads to the next', body: ApprovalList } },
    handle: async ({ identity: { tenant }, query: { limit = PAGE, cursor: from } }) => {
      const query = {
        type: APPROVAL_TYPE,
        state: 'waiting',
        limit,
        ...(from !== undefined && { cursor: from }),
      };
      const { jobs, cursor } = await orchestrator.list(query, tenant);
      const approvals = await Promise.all(
        jobs.map(({ job_id: id }) => orchestrator.get(id, tenant).then(viewOf)),
      );
      return { status: 200, body: { approvals, ...(cursor !== undefined && { cursor }) } };
    },
  });

const tagsOf = (job: JobView): ApprovalTags => job.tags as unknown as ApprovalTags;

function viewOf(job: JobView): ApprovalView {
  const { run, agent, tool, checkpoint, hash } = tagsOf(job);
  const payload = job.payload as CallToApprove | undefined;
  return {
    call_id: job.job_id,
    run_id: run,
    agent,
    ...(tool !== undefined && { tool }),
    ...(checkpoint && { checkpoint }),
    ...(payload && { args: payload.args }),
    hash,
    ...(job.wait?.until !== undefined && { expires_at: job.wait.until }),
  };
}

const approveRoute = (orchestrator: Orchestrator): Route =>
  route({
    operationId: 'approveCall',
    tag: 'agents',
    method: 'POST',
    path: '/v2/runs/:id/approve',
    role: 'operate',
    summary: 'Allow or deny a call of a tool; each is answered once',
    logsRefusals: true,
    body: ApproveCall,
    answers: {
      200: { description: 'The run', body: RunView },
      404: 'No such run, or no such call of it',
      409: 'The call does not wait for an answer, or is another one',
    },
    handle: async (call) => {
      const runId = jobIdOf(call);
      const { tenant, name } = call.identity;
      const { call_id: callId, approve, why, hash } = call.body;
      const job = await orchestrator.get(callId, tenant);
      const tags = tagsOf(job);
      if (job.type !== APPROVAL_TYPE || !isOfRun(tags.run, runId))
        throw new OrchdError('NOT_FOUND', 'the run has no such call to allow');
      if (hash !== undefined && hash !== tags.hash)
        throw new OrchdError('ILLEGAL_STATE', 'the call is another one than the one that was shown');
      if (job.state !== 'waiting' || !job.wait)
        throw new OrchdError(
          'ILLEGAL_STATE',
          'the call does not wait for an answer: it was answered, or is too old',
        );
      const answer: ApprovalAnswer = { approve, by: name, ...(why !== undefined && { why }) };
      await orchestrator.orders.answer(callId, job.wait.step, answer, tenant);
      return { status: 200, body: await runView(runId, (id) => orchestrator.get(id, tenant)) };
    },
  });
