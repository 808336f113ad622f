/** The tools for jobs: submit, wait, read, list, cancel. */
import { Type } from 'typebox';
import type { JobView } from '../../model/http/jobs.ts';
import { requestObject } from '../../model/http/shape.ts';
import { JOB_ID } from '../../model/job-spec.ts';
import { ListRequest, SubmitRequest } from '../../model/submit.ts';
import { READS, type Tool, ToolFailure, tool } from './tool.ts';
import { shownJob } from './views.ts';
import { DEFAULT_WAIT_MS, MAX_WAIT_MS, readUntil } from './wait.ts';

const optional = Type.Optional;
const jobId = Type.String({ pattern: JOB_ID, description: 'The id of the job' });

/** For a tool that waits. */
export const waitMs = optional(
  Type.Integer({
    minimum: 0,
    maximum: MAX_WAIT_MS,
    description: `How long to wait, in milliseconds; ${DEFAULT_WAIT_MS} by default`,
  }),
);

/** For a tool that shows a result. */
export const offset = optional(
  Type.Integer({
    minimum: 0,
    maximum: 2 ** 31,
    description: 'Where to begin in a long result: `next_offset` of the last answer',
  }),
);

const fields = SubmitRequest.properties;

const submitJob = tool({
  name: 'submit_job',
  title: 'Submit a job',
  description:
    'Hands a job to the queue and returns at once with its job_id; the job goes on without you. Give a job_id of your own: submitting it again with the same content returns the same job, and never a second one. Then call wait_for_job, now or later.',
  operation: 'submitJob',
  hints: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  input: requestObject({
    prompt: fields.prompt,
    messages: fields.messages,
    model: fields.model,
    job_id: fields.job_id,
    key: fields.key,
    priority: fields.priority,
    session_id: fields.session_id,
    max_tokens: fields.max_tokens,
    temperature: fields.temperature,
    seed: fields.seed,
    type: fields.type,
    payload: fields.payload,
    after: fields.after,
    not_before: fields.not_before,
    deadline_ms: fields.deadline_ms,
    timeout_ms: fields.timeout_ms,
    max_tries: fields.max_tries,
    batch: fields.batch,
    tags: fields.tags,
    wait_for_backend: fields.wait_for_backend,
    force_retry: fields.force_retry,
  }),
  call: async (args, { brain, newId }) => {
    // With an id of its own, a submit whose answer is lost can be repeated.
    const request = { ...args, job_id: args.job_id ?? newId() };
    try {
      const { events_url: _, ...submitted } = await brain.submit(request);
      return { ...submitted, next: `Call wait_for_job with job_id "${submitted.job_id}".` };
    } catch (error) {
      throw new ToolFailure(error, { job_id: request.job_id });
    }
  },
});

const waitForJob = tool({
  name: 'wait_for_job',
  title: 'Wait for a job',
  description:
    'Waits until a job has ended, for a bounded time, and returns its state and its result. If `ended` is false, it still waits or runs: call this again. Waiting changes nothing, and the job goes on whether or not you wait.',
  operation: 'getJob',
  hints: READS,
  waits: true,
  input: requestObject({ job_id: jobId, wait_ms: waitMs, offset }),
  call: async ({ job_id: id, wait_ms: ms = DEFAULT_WAIT_MS, offset: from }, context) => {
    const read = (): Promise<JobView> => context.brain.get(id);
    const job = await readUntil(read, { isDone: hasEnded, describe: progressOf }, ms, context);
    const next = `The job has not ended (${job.state}). Call wait_for_job again with job_id "${id}", or get_job later.`;
    return { ...shownJob(job, from), ...(!hasEnded(job) && { next }) };
  },
});

const hasEnded = ({ ended_at: endedAt }: JobView): boolean => endedAt !== undefined;

function progressOf({ state, queue_position: position, waiting }: JobView): string {
  if (position !== undefined) return `${state}: ${position === 0 ? 'next' : `${position} jobs go first`}`;
  return waiting ? `${state}: ${waiting.text}` : state;
}

const getJob = tool({
  name: 'get_job',
  title: 'Get a job and its result',
  description:
    'Shows a job at once: its state, why it waits, its error, and its result if it has ended. A long result comes in pieces.',
  operation: 'getJob',
  hints: READS,
  input: requestObject({ job_id: jobId, offset }),
  call: async ({ job_id: id, offset: from }, { brain }) => shownJob(await brain.get(id), from),
});

/** The jobs on a page, unless the call names a number. */
const PAGE = 20;
const MAX_PAGE = 100;

const listJobs = tool({
  name: 'list_jobs',
  title: 'List jobs',
  description: 'Lists jobs, the newest first, without their results; `cursor` leads to the next page.',
  operation: 'listJobs',
  hints: READS,
  input: requestObject({
    state: ListRequest.properties.state,
    type: ListRequest.properties.type,
    session_id: ListRequest.properties.session_id,
    key: ListRequest.properties.key,
    batch: ListRequest.properties.batch,
    root: ListRequest.properties.root,
    tag: ListRequest.properties.tag,
    cursor: ListRequest.properties.cursor,
    limit: optional(
      Type.Integer({ minimum: 1, maximum: MAX_PAGE, description: `Jobs per page; ${PAGE} by default` }),
    ),
  }),
  call: async ({ limit = PAGE, ...filter }, { brain }) => {
    const { jobs, cursor } = await brain.list({ ...filter, limit });
    return { jobs: jobs.map((job) => shownJob(job)), ...(cursor !== undefined && { cursor }) };
  },
});

const cancelJob = tool({
  name: 'cancel_job',
  title: 'Cancel a job',
  description:
    'Cancels a job, or a run of an agent by its run_id, and everything below it. It can be repeated; a job that has ended is not changed.',
  operation: 'cancelJob',
  hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: requestObject({ job_id: jobId }),
  call: async ({ job_id: id }, { brain }) => shownJob(await brain.cancel(id)),
});

export const JOB_TOOLS: readonly Tool[] = [submitJob, waitForJob, getJob, listJobs, cancelJob];
