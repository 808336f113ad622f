/** The surface of a worker, as data. Every order and every read of executions names the brain it comes from. */
import { Type } from 'typebox';
import type { Timers } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import {
  CancelReply,
  CancelRequest,
  ExecuteRequest,
  ExecutionList,
  ExecutionState,
  REGISTRY_HEADER,
  ShutdownRequest,
  TOKEN_HEADER,
  WorkerHealth,
} from '../../model/worker-wire.ts';
import type { Epochs } from '../../wire/epochs.ts';
import { type Call, type Route, route, type Stream } from '../../wire/route.ts';
import { readAsk } from './ask.ts';
import type { Executions } from './executions.ts';
import { followLog } from './follow.ts';
import type { Memory, Remembered } from './memory.ts';

export interface RouteParts {
  readonly executions: Executions;
  readonly memory: Memory;
  readonly epochs: Epochs;
  readonly timers: Timers;
  readonly health: () => WorkerHealth;
  /** Begins to stop; the answer does not wait for the end. */
  readonly shutdown: (graceMs: number | undefined) => void;
}

const EVENTS = '`started`, `token`, `metrics`, then `end` or `error`; the id of each is its number';
const Draining = Type.Object({ status: Type.Literal('draining') });

const TOKEN = /^[!-~]{1,300}$/;
const FENCED = 'A newer brain has taken over, or the execution is not in a state for it';

const EventsQuery = Type.Object(
  { from: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })) },
  { additionalProperties: true },
);

export function workerRoutes(parts: RouteParts): readonly Route[] {
  return [healthRoute(parts), ...orderRoutes(parts), ...readRoutes(parts)];
}

const healthRoute = ({ health }: RouteParts): Route =>
  route({
    operationId: 'getHealth',
    tag: 'worker',
    method: 'GET',
    path: '/health',
    role: 'public',
    summary: 'What this worker is and does',
    ignoresQuery: true,
    answers: { 200: { description: 'Its state', body: WorkerHealth } },
    handle: () => ({ status: 200, body: health() }),
  });

const executeRoute = (parts: RouteParts): Route =>
  route({
    operationId: 'execute',
    tag: 'worker',
    method: 'POST',
    path: '/execute',
    role: 'operate',
    summary: 'Run a job; the same token again is the same execution',
    body: ExecuteRequest,
    streams: true,
    answers: {
      200: { description: 'Its events, from the first', events: EVENTS },
      400: 'Not what can be run',
      409: FENCED,
      410: 'This token was cancelled before it came',
      503: 'No slot is free, or another worker was meant',
    },
    handle: (call) => execute(parts, call),
  });

function orderRoutes(parts: RouteParts): Route[] {
  const { epochs, executions, memory, shutdown } = parts;
  return [
    executeRoute(parts),
    route({
      operationId: 'cancel',
      tag: 'worker',
      method: 'POST',
      path: '/cancel',
      role: 'operate',
      summary: 'End an execution, or make sure that it never begins',
      body: CancelRequest,
      answers: {
        202: { description: 'What was found', body: CancelReply },
        404: 'Nothing of the job is known',
        409: FENCED,
      },
      handle(call) {
        const who = epochs.check(call.headers);
        const { job_id: jobId, token, how = 'end' } = call.body;
        const reply =
          token === undefined
            ? executions.cancelJob(who, jobId, how)
            : executions.cancel(who, checkToken(token), how);
        return { status: 202, body: { ...memoryOf(memory), ...reply } };
      },
    }),
    route({
      operationId: 'acknowledge',
      tag: 'worker',
      method: 'POST',
      path: '/executions/:token/ack',
      role: 'operate',
      summary: 'The result was taken over and may be dropped',
      answers: { 204: 'It is dropped, or was not here', 409: FENCED },
      handle(call) {
        executions.acknowledge(epochs.check(call.headers), tokenOf(call));
        return { status: 204 };
      },
    }),
    route({
      operationId: 'shutdown',
      tag: 'worker',
      method: 'POST',
      path: '/shutdown',
      role: 'operate',
      summary: 'Take nothing new, finish what runs, exit',
      body: ShutdownRequest,
      answers: { 202: { description: 'It begins', body: Draining }, 409: FENCED },
      handle(call) {
        epochs.check(call.headers);
        const { grace_ms: graceMs } = call.body;
        shutdown(graceMs);
        return { status: 202, body: { status: 'draining' } };
      },
    }),
  ];
}

function readRoutes({ epochs, memory, timers }: RouteParts): Route[] {
  return [
    route({
      operationId: 'listExecutions',
      tag: 'worker',
      method: 'GET',
      path: '/executions',
      role: 'read',
      summary: 'What runs, and what has ended and was not acknowledged',
      answers: {
        200: { description: 'The executions of the brain that asks', body: ExecutionList },
        409: FENCED,
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const executions = memory.list(owner).map(({ token, what }) => summaryOf(token, what));
        return { status: 200, body: { ...memoryOf(memory), executions } };
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
        404: 'It has not run here',
        409: FENCED,
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const token = tokenOf(call);
        const what = known(memory, owner, token);
        const outcome = what.is === 'execution' ? what.execution.outcome : undefined;
        const state: ExecutionState = { ...summaryOf(token, what), ...(outcome && { outcome }) };
        return { status: 200, body: state };
      },
    }),
    route({
      operationId: 'followExecution',
      tag: 'worker',
      method: 'GET',
      path: '/executions/:token/events',
      role: 'read',
      summary: 'The events after a number',
      query: EventsQuery,
      streams: true,
      answers: {
        200: { description: 'The stream', events: EVENTS },
        404: 'It has not run here',
        409: 'Its events are gone',
      },
      handle(call) {
        const { owner } = epochs.check(call.headers);
        const token = tokenOf(call);
        const { from = '0' } = call.query;
        const execution = memory.readable(owner, token);
        if (execution) return followLog(execution.log, Number(from), timers);
        known(memory, owner, token);
        throw new OrchdError('UNKNOWN_OUTCOME', 'this token has run here; its events are gone');
      },
    }),
  ];
}

function execute({ executions, epochs, timers }: RouteParts, call: Call<ExecuteRequest>): Stream {
  const who = epochs.check(call.headers);
  const token = checkToken(call.headers[TOKEN_HEADER]);
  const registry = call.headers[REGISTRY_HEADER];
  const ask = readAsk(call.body);
  const execution = executions.begin({
    who,
    token,
    registry: typeof registry === 'string' ? registry : undefined,
    ask,
  });
  return followLog(execution.log, 0, timers);
}

type Run = Exclude<Remembered, { readonly is: 'tombstone' }>;

/** A tombstone says that it has not run. */
function known(memory: Memory, owner: string, token: string): Run {
  const what = memory.find(owner, token);
  if (what && what.is !== 'tombstone') return what;
  throw new OrchdError('NOT_FOUND', 'this token has not run here');
}

function summaryOf(token: string, what: Remembered): ExecutionList['executions'][number] {
  if (what.is === 'execution') {
    const { jobId, outcome } = what.execution;
    return { token, job_id: jobId, state: outcome ? 'ended' : 'running' };
  }
  return { token, job_id: what.is === 'forgotten' ? what.jobId : '', state: 'ended' };
}

const memoryOf = ({ registry, rememberedSince }: Memory) => ({ registry, remembered_since: rememberedSince });

const tokenOf = ({ params }: Pick<Call, 'params'>): string => checkToken(params['token']);

function checkToken(token: unknown): string {
  if (typeof token === 'string' && TOKEN.test(token)) return token;
  throw new OrchdError('INVALID_PARAMS', `the token of the attempt is needed, as ${TOKEN_HEADER}`, {
    field: TOKEN_HEADER,
  });
}
