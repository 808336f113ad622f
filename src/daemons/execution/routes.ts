/** The HTTP routes of a worker. All but /health require the headers that name the owner and epoch of the brain. */
import { Type } from 'typebox';
import type { Timers } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { traceparentIn } from '../../model/trace.ts';
import {
  CancelReply,
  CancelRequest,
  ExecuteRequest,
  ExecutionList,
  ExecutionState,
  HASH_HEADER,
  REGISTRY_HEADER,
  RunningCount,
  ShutdownRequest,
  TOKEN_HEADER,
  WorkerHealth,
} from '../../model/worker-wire.ts';
import type { Epochs } from '../../wire/epochs.ts';
import { type Call, type Route, route, type Stream } from '../../wire/route.ts';
import type { Executions } from './executions.ts';
import { followLog } from './follow.ts';
import { type ContentParts, readInferenceRequest } from './inference-request.ts';
import type { TokenMemory, TokenRecord } from './token-memory.ts';

export interface ExecutionRouteContext {
  readonly executions: Executions;
  readonly memory: TokenMemory;
  readonly epochs: Epochs;
  readonly timers: Timers;
  readonly health: () => WorkerHealth;
  /** The parts that a message may have; `text` by default. */
  readonly contentParts?: ContentParts;
  /** Begins the shutdown; the response does not wait for its end. */
  readonly shutdown: (graceMs: number | undefined) => void;
}

const EVENTS = '`started`, `token`, `metrics`, then `end` or `error`; the id of each is its number';
const Draining = Type.Object({ status: Type.Literal('draining') });

const TOKEN = /^[!-~]{1,300}$/;
const FENCED = 'A newer brain has taken over';

const EventsQuery = Type.Object(
  { from: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })) },
  { additionalProperties: true },
);

export function executionRoutes(context: ExecutionRouteContext): readonly Route[] {
  return [healthRoute(context), ...orderRoutes(context), ...dropRoutes(context), ...readRoutes(context)];
}

const healthRoute = ({ health }: ExecutionRouteContext): Route =>
  route({
    operationId: 'getHealth',
    tag: 'worker',
    method: 'GET',
    path: '/health',
    role: 'public',
    summary: 'The state of the worker',
    ignoresQuery: true,
    answers: { 200: { description: 'Status, model and load', body: WorkerHealth } },
    handle: () => ({ status: 200, body: health() }),
  });

const executeRoute = (context: ExecutionRouteContext): Route =>
  route({
    operationId: 'execute',
    tag: 'worker',
    method: 'POST',
    path: '/execute',
    role: 'operate',
    summary: 'Run a job; the same token again returns the same execution',
    body: ExecuteRequest,
    streams: true,
    answers: {
      200: { description: 'The events of the execution, from the first', events: EVENTS },
      400: 'The request cannot be run',
      409: `${FENCED}, or the token has run here: with another body, or its result is gone`,
      410: 'The token was cancelled before this offer arrived',
      503: 'No slot is free, the model is loading, the worker is draining, or the offer expects another registry',
    },
    handle: (call) => execute(context, call),
  });

function orderRoutes(context: ExecutionRouteContext): Route[] {
  const { epochs, executions, memory, shutdown } = context;
  return [
    executeRoute(context),
    route({
      operationId: 'cancel',
      tag: 'worker',
      method: 'POST',
      path: '/cancel',
      role: 'operate',
      summary: 'End an execution, or make sure that it never begins',
      body: CancelRequest,
      answers: {
        202: { description: 'The state of the execution', body: CancelReply },
        404: 'The job is not known here',
        409: FENCED,
      },
      handle(call) {
        const who = epochs.check(call.headers);
        const { job_id: jobId, token, how = 'end' } = call.body;
        const reply =
          token === undefined
            ? executions.cancelJob(who, jobId, how)
            : executions.cancel(who, checkToken(token), how);
        return { status: 202, body: { ...memoryOf(memory), ...openingBefore(epochs, who.owner), ...reply } };
      },
    }),
    route({
      operationId: 'shutdown',
      tag: 'worker',
      method: 'POST',
      path: '/shutdown',
      role: 'operate',
      summary: 'Accept no new work, finish running executions, exit',
      body: ShutdownRequest,
      answers: { 202: { description: 'The shutdown begins', body: Draining }, 409: FENCED },
      handle(call) {
        epochs.check(call.headers);
        const { grace_ms: graceMs } = call.body;
        shutdown(graceMs);
        return { status: 202, body: { status: 'draining' } };
      },
    }),
  ];
}

/** The routes by which a brain says that it has the result. */
function dropRoutes({ epochs, executions }: ExecutionRouteContext): Route[] {
  return [
    route({
      operationId: 'acknowledge',
      tag: 'worker',
      method: 'POST',
      path: '/executions/:token/ack',
      role: 'operate',
      summary: 'Acknowledge a result, which may then be dropped',
      answers: {
        204: 'The result is dropped, or was not known',
        409: `${FENCED}, or the execution has not ended`,
      },
      handle(call) {
        executions.acknowledge(epochs.check(call.headers), tokenOf(call));
        return { status: 204 };
      },
    }),
    route({
      operationId: 'erase',
      tag: 'worker',
      method: 'POST',
      path: '/executions/:token/erase',
      role: 'operate',
      summary: 'Acknowledge a result, and erase what the execution has said',
      answers: {
        204: 'Nobody can read it any more, or it was not known',
        409: `${FENCED}, or the execution has not ended`,
      },
      async handle(call) {
        await executions.erase(epochs.check(call.headers), tokenOf(call));
        return { status: 204 };
      },
    }),
  ];
}

const runningRoute = ({ epochs, memory }: ExecutionRouteContext): Route =>
  route({
    operationId: 'countRunning',
    tag: 'worker',
    method: 'GET',
    path: '/running',
    role: 'read',
    summary: 'Count the executions that run for the calling owner, and for others',
    answers: { 200: { description: 'The counts', body: RunningCount }, 409: FENCED },
    handle(call) {
      const { owner } = epochs.check(call.headers);
      const own = memory.allRunning().filter((execution) => execution.owner === owner).length;
      return { status: 200, body: { own, others: memory.running - own } };
    },
  });

function readRoutes(context: ExecutionRouteContext): Route[] {
  const { epochs, memory, timers } = context;
  return [
    runningRoute(context),
    route({
      operationId: 'listExecutions',
      tag: 'worker',
      method: 'GET',
      path: '/executions',
      role: 'read',
      summary: 'List running executions, and ended ones that are not acknowledged',
      answers: {
        200: { description: 'The executions of the calling owner', body: ExecutionList },
        409: FENCED,
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const executions = memory.list(owner).map(({ token, record }) => summaryOf(token, record));
        return { status: 200, body: { ...memoryOf(memory), ...openingBefore(epochs, owner), executions } };
      },
    }),
    route({
      operationId: 'getExecution',
      tag: 'worker',
      method: 'GET',
      path: '/executions/:token',
      role: 'read',
      summary: 'One execution, with its outcome',
      answers: {
        200: { description: 'Its state', body: ExecutionState },
        404: 'The token has not run here',
        409: FENCED,
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const token = tokenOf(call);
        const record = findRun(memory, owner, token);
        const outcome = record.is === 'execution' ? record.execution.outcome : undefined;
        const state: ExecutionState = { ...summaryOf(token, record), ...(outcome && { outcome }) };
        return { status: 200, body: state };
      },
    }),
    route({
      operationId: 'followExecution',
      tag: 'worker',
      method: 'GET',
      path: '/executions/:token/events',
      role: 'read',
      summary: 'The events whose number is greater than `from`',
      query: EventsQuery,
      streams: true,
      answers: {
        200: { description: 'The stream', events: EVENTS },
        404: 'The token has not run here',
        409: `${FENCED}, or the events are gone`,
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const token = tokenOf(call);
        const { from = '0' } = call.query;
        const execution = memory.readable(owner, token);
        if (execution) return followLog(execution.log, Number(from), timers);
        findRun(memory, owner, token);
        throw new OrchdError('UNKNOWN_OUTCOME', 'this token has run here; its events are gone');
      },
    }),
  ];
}

function execute(context: ExecutionRouteContext, call: Call<ExecuteRequest>): Stream {
  const { executions, epochs, timers, contentParts } = context;
  const who = epochs.check(call.headers);
  const token = checkToken(call.headers[TOKEN_HEADER]);
  const registry = call.headers[REGISTRY_HEADER];
  const hash = call.headers[HASH_HEADER];
  const request = readInferenceRequest(call.body, contentParts);
  const execution = executions.begin({
    who,
    token,
    registry: typeof registry === 'string' ? registry : undefined,
    hash: typeof hash === 'string' ? hash : undefined,
    request,
    traceparent: traceparentIn(call.headers),
  });
  return followLog(execution.log, 0, timers);
}

type RunRecord = Exclude<TokenRecord, { readonly is: 'tombstone' }>;

/** The record of a token that has run; NOT_FOUND for an unknown token, and for a tombstone, which has not run. */
function findRun(memory: TokenMemory, owner: string, token: string): RunRecord {
  const record = memory.find(owner, token);
  if (record && record.is !== 'tombstone') return record;
  throw new OrchdError('NOT_FOUND', 'this token has not run here');
}

function summaryOf(token: string, record: TokenRecord): ExecutionList['executions'][number] {
  if (record.is === 'execution') {
    const { jobId, outcome, hash } = record.execution;
    const state = outcome ? 'ended' : 'running';
    return { token, job_id: jobId, state, ...(hash !== undefined && { hash }) };
  }
  return { token, job_id: record.is === 'forgotten' ? record.jobId : '', state: 'ended' };
}

const memoryOf = ({ registry, rememberedSince, now }: TokenMemory) => ({
  registry,
  remembered_since: rememberedSince,
  now,
});

function openingBefore(epochs: Epochs, owner: string): Pick<ExecutionList, 'opening_before'> {
  const { epoch, nonce } = epochs.openingBefore(owner) ?? {};
  return epoch === undefined ? {} : { opening_before: { epoch, ...(nonce !== undefined && { nonce }) } };
}

const tokenOf = ({ params }: Pick<Call, 'params'>): string => checkToken(params['token']);

function checkToken(token: unknown): string {
  if (typeof token === 'string' && TOKEN.test(token)) return token;
  throw new OrchdError(
    'INVALID_PARAMS',
    `the token of the attempt is missing or malformed; /execute takes it from the header ${TOKEN_HEADER}`,
    {
      field: TOKEN_HEADER,
    },
  );
}
