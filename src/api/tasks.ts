/** The routes of jobs: submit, read, cancel, redrive, resolve. */
import { Type } from 'typebox';
import { checker } from '../kit/check.ts';
import type { Timers } from '../kit/env/env.ts';
import { inSlices, ONE_TURN_BYTES, type Sliced } from '../kit/slices.ts';
import { OrchdError } from '../model/errors.ts';
import {
  type BulkAnswer,
  BulkAnswers,
  JobPage,
  JobQuery,
  JobView,
  MAX_BULK,
  SubmitBody,
  SubmitQuery,
  type Submitted,
  SubmittedTask,
} from '../model/http/jobs.ts';
import { JOB_ID } from '../model/job-spec.ts';
import { ListRequest, ResolveRequest, type SubmitRequest } from '../model/submit.ts';
import { TRACEPARENT, traceIn } from '../model/trace.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Caller } from '../runtime/prepare.ts';
import { renderError } from '../wire/render-error.ts';
import { type Answer, type Call, type Route, route } from '../wire/route.ts';
import type { OpenStreams } from './open-streams.ts';

const isJobId = new RegExp(JOB_ID);

export function callerOf(call: Pick<Call, 'identity' | 'correlationId' | 'bodySize' | 'headers'>): Caller {
  const { identity, correlationId, bodySize, headers } = call;
  const { name, tenant, models } = identity;
  return {
    tenant,
    principal: name,
    submittedBy: name,
    models,
    correlationId,
    trace: traceIn(headers[TRACEPARENT]),
    bodySize,
    mustBeRunnable: true,
  };
}

/** The job id in the path; throws NOT_FOUND for a text that cannot be a job id. */
export function jobIdOf({ params }: Pick<Call, 'params'>): string {
  const id = params['id'] ?? '';
  if (!isJobId.test(id)) throw new OrchdError('NOT_FOUND', 'there is no such job');
  return id;
}

export const taskRoutes = (
  orchestrator: Orchestrator,
  newId: () => string,
  openStreams: OpenStreams,
  timers: Timers,
): readonly Route[] => [
  submitRoute(orchestrator, newId, openStreams),
  route({
    operationId: 'listJobs',
    tag: 'jobs',
    method: 'GET',
    path: '/v2/tasks',
    role: 'read',
    summary: 'List jobs, newest first',
    query: ListRequest,
    answers: { 200: { description: 'A page of jobs; `cursor` leads to the next', body: JobPage } },
    handle: async ({ query, identity }) => ({
      status: 200,
      json: await inSlices(pageText(await orchestrator.list(query, identity.tenant)), timers),
    }),
  }),
  route({
    operationId: 'getJob',
    tag: 'jobs',
    method: 'GET',
    path: '/v2/tasks/:id',
    role: 'read',
    summary: 'A job: what was asked, state, attempts, usage, result, queue position, why it waits',
    query: JobQuery,
    answers: { 200: { description: 'The job', body: JobView }, 404: 'No such job' },
    handle: async (call) => ({
      status: 200,
      json: await orchestrator.getJson(jobIdOf(call), call.identity.tenant, 'now', call.query.include),
    }),
  }),
];

const submitRoute = (orchestrator: Orchestrator, newId: () => string, openStreams: OpenStreams): Route =>
  route({
    operationId: 'submitJob',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks',
    role: 'submit',
    summary: `Submit a job; up to ${MAX_BULK} as an array with an answer each; or any number as application/x-ndjson, answered line by line`,
    body: SubmitBody,
    query: SubmitQuery,
    checksBody: 'handler',
    takesLines: (caller) => openStreams.take(caller),
    answers: {
      202: { description: 'The job is durable and queued', body: SubmittedTask },
      200: { description: 'Answers to an array, in its order', body: BulkAnswers },
      409: 'The job id was used with another body',
      422: 'Refused by admission',
      429: 'The queue is full, or a limit is reached',
      507: 'The disk is full',
    },
    repeatable: ({ body }) => withIds(body, newId),
    handle: (call): Promise<SubmitAnswer> => {
      const { batch } = call.query;
      const body = batch === undefined ? call.body : withBatch(call.body, batch);
      const caller = callerOf(call);
      return Array.isArray(body)
        ? submitMany(orchestrator, body, caller, call.correlationId)
        : submitOne(orchestrator, body as SubmitRequest, caller);
    },
  });

/** The routes that change an existing job: cancel, redrive, resolve. */
export const jobCommandRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  route({
    operationId: 'cancelJob',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks/:id/cancel',
    role: 'submit',
    summary: 'Cancel a job and its children; repeating it is harmless',
    answers: { 202: { description: 'Cancelled, or being cancelled', body: JobView }, 404: 'No such job' },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const { name, tenant } = call.identity;
      await orchestrator.orders.cancel(jobIdOf(call), name, tenant);
      return { status: 202, json: await orchestrator.getJson(jobIdOf(call), tenant, 'later') };
    },
  }),
  route({
    operationId: 'redriveJob',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks/:id/redrive',
    role: 'operate',
    summary: 'Queue a dead job again',
    answers: {
      202: { description: 'Queued again', body: JobView },
      404: 'No such job',
      409: 'The job is not dead, its key is taken, or it is a call of a run that has gone on without it',
    },
    handle: async (call) => {
      const { name, tenant } = call.identity;
      await orchestrator.orders.redrive(jobIdOf(call), name, tenant);
      return { status: 202, json: await orchestrator.getJson(jobIdOf(call), tenant, 'later') };
    },
  }),
  route({
    operationId: 'resolveJob',
    tag: 'jobs',
    method: 'POST',
    path: '/v2/tasks/:id/resolve',
    role: 'operate',
    summary: 'Settle a job whose outcome is unknown',
    body: ResolveRequest,
    answers: {
      202: { description: 'Settled', body: JobView },
      404: 'No such job',
      409: 'The outcome of the job is known',
    },
    handle: async (call) => {
      const { name, tenant } = call.identity;
      const { body, bodySize } = call;
      await orchestrator.orders.resolve(jobIdOf(call), body, name, tenant, bodySize);
      return { status: 202, json: await orchestrator.getJson(jobIdOf(call), tenant, 'later') };
    },
  }),
];

/** A page may have a thousand jobs with ten attempts each. */
function* pageText({ jobs, cursor }: JobPage): Sliced<string> {
  const texts: string[] = [];
  let chars = 0;
  for (const job of jobs) {
    const text = JSON.stringify(job);
    texts.push(text);
    chars += text.length;
    if (chars < ONE_TURN_BYTES) continue;
    chars = 0;
    yield;
  }
  const after = cursor === undefined ? '' : `,"cursor":${JSON.stringify(cursor)}`;
  return `{"jobs":[${texts.join(',')}]${after}}`;
}

/** Gives each job without an id one, so that the request can be sent twice. An invalid body is left for the handler. */
function withIds(body: unknown, newId: () => string): unknown {
  if (Array.isArray(body)) return body.map((each) => withIds(each, newId));
  if (typeof body !== 'object' || body === null || 'job_id' in body) return body;
  return { ...body, job_id: newId() };
}

/** Puts jobs that name no batch into this one. */
function withBatch(body: unknown, batch: string): unknown {
  if (Array.isArray(body)) return body.map((each) => withBatch(each, batch));
  return typeof body !== 'object' || body === null ? body : { batch, ...body };
}

type SubmitAnswer = Answer<202, SubmittedTask> | Answer<200, { readonly answers: readonly BulkAnswer[] }>;

/** Uses `then` because `await` would cost as much as the rest of this function, on the hot path of every submit. */
const submitOne = (
  orchestrator: Orchestrator,
  request: SubmitRequest,
  caller: Caller,
): Promise<SubmitAnswer> =>
  orchestrator.submit(request, caller).then((submitted) => ({ status: 202, body: withUrl(submitted) }));

const Bulk = Type.Array(Type.Unknown(), { minItems: 1, maxItems: MAX_BULK });
const checkBulk = checker(Bulk);

async function submitMany(
  orchestrator: Orchestrator,
  jobs: readonly unknown[],
  caller: Caller,
  correlationId: string,
): Promise<SubmitAnswer> {
  const requests = checkBulk(jobs) as readonly SubmitRequest[];
  const outcomes = await orchestrator.submitMany(requests, caller);
  const answers = outcomes.map((outcome): BulkAnswer => {
    if (!(outcome instanceof OrchdError)) return { http_status: 202, ...withUrl(outcome) };
    const { status, body } = renderError(outcome, correlationId);
    return { http_status: status, ...body };
  });
  return { status: 200, body: { answers } };
}

const withUrl = (submitted: Submitted): SubmittedTask => ({
  ...submitted,
  events_url: `/v2/tasks/${submitted.job_id}/events`,
});
