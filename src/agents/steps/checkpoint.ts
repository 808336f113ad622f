/**
 * Checkpoints: between two steps a person must say that the run may go on. The question is a job that waits for an answer,
 * like that about the call of a tool (approval.ts): it survives restarts, and no answer is a no. Any step may follow, which
 * knows nothing of it.
 */
import { stableHash } from '../../kit/hash.ts';
import { DEFAULT_APPROVAL_WAIT_MS } from '../../model/agent.ts';
import {
  APPROVAL_TYPE,
  type ApprovalTags,
  type CallToApprove,
  type Checkpoint,
} from '../../model/run-jobs.ts';
import {
  type ChildJob,
  fail,
  type Next,
  type RunState,
  type StepContext,
  type StepNote,
} from '../run-state.ts';
import { isRefusedForNow, pauseAfter } from './refusals.ts';
import { approvalIn } from './tool-execution.ts';

/** The code of a run that nobody has let go on. */
const DENIED = 'CHECKPOINT_DENIED';

/** The run with the checkpoint that lies between its last phase and the one that it has just entered, if it has one there. */
export function withCheckpoint(from: RunState, run: RunState): RunState {
  const { checkpoints = [] } = run.agent;
  const at =
    checkpoints.length === 0 ? undefined : crossed(from, run).find((each) => checkpoints.includes(each));
  return at === undefined ? run : { ...run, checkpoint: { at } };
}

function crossed(from: RunState, { phase }: RunState): readonly Checkpoint[] {
  if (phase === from.phase || phase === 'failed') return [];
  const after: readonly Checkpoint[] = from.phase === 'planning' ? ['plan'] : [];
  if (phase === 'tool_execution') return [...after, 'tools'];
  return phase === 'synthesis' ? [...after, 'synthesis'] : after;
}

/** Asks whether the run may go on, or takes the answer: then `jobs` is empty and the checkpoint is gone. */
export function checkpoint(context: StepContext): Next {
  const { run, ended } = context;
  const { jobId } = run.checkpoint ?? {};
  if (!ended || jobId === undefined) return ask(context);
  const call = ended.find((each) => each.jobId === jobId);
  const pauseMs = call && isRefusedForNow(call) ? pauseAfter(run.refusals) : undefined;
  if (pauseMs !== undefined) return { run: { ...run, refusals: run.refusals + 1 }, jobs: [], pauseMs };
  const { checkpoint: _, ...passed } = run;
  const answer = approvalIn(call);
  const error = answer?.approved ? undefined : (call?.error?.code ?? 'DENIED');
  const note: StepNote = {
    event: 'approval',
    job_id: jobId,
    duration_ms: call?.durationMs ?? 0,
    ...(error !== undefined && { error }),
  };
  const noted = { ...passed, refusals: 0, steps: [...run.steps, note] };
  if (error === undefined) return { run: noted, jobs: [] };
  const why = call?.error?.message ?? answer?.why;
  return fail(noted, DENIED, `the run was not allowed to go on${why === undefined ? '' : `: ${why}`}`);
}

function ask({ run, runId, priority }: StepContext): Next {
  const { name: agent, approval_wait_ms: waitMs = DEFAULT_APPROVAL_WAIT_MS } = run.agent;
  const { at } = run.checkpoint as NonNullable<RunState['checkpoint']>;
  const id = `${runId}.${run.step + 1}.0`;
  const args = shownAt(at, run);
  const payload: CallToApprove = { agent, args, waitMs };
  const hash = stableHash([at, args]);
  const tags: ApprovalTags = { run: runId, agent, event: 'approval', checkpoint: at, hash };
  const job: ChildJob = { job_id: id, type: APPROVAL_TYPE, priority, tags, payload };
  return { run: { ...run, checkpoint: { at, jobId: id }, step: run.step + 1 }, jobs: [job] };
}

/** The text that a person decides about: the plan, the calls, the answer, or the answers that it is merged from. */
function shownAt(at: Checkpoint, run: RunState): object {
  const last = run.messages.at(-1);
  if (at === 'tools')
    return {
      calls: (last?.tool_calls ?? []).map(({ function: { name, arguments: args } }) => ({
        tool: name,
        arguments: args,
      })),
    };
  const { branches } = run.agent;
  if (run.isMerging && branches) return { branches: run.messages.slice(-branches.length).map(contentOf) };
  if (at === 'synthesis') return { reply: run.reply ?? '' };
  return { plan: contentOf(run.messages.findLast(({ role }) => role === 'assistant')) };
}

const contentOf = (message: RunState['messages'][number] | undefined): string => message?.content ?? '';
