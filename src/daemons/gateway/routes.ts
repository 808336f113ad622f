/** The HTTP routes of the gateway (gateway-wire.ts). */
import { Type } from 'typebox';
import type { Timers } from '../../kit/env/env.ts';
import {
  ActiveRequests,
  BusyView,
  GatewayHealth,
  GatewayState,
  KillRequest,
  QueueJob,
  QueueSubmit,
  RequestState,
  SeatsOrder,
  SubmitImmediate,
  SubmittedRequest,
} from '../../model/gateway-wire.ts';
import { CancelReply, ShutdownRequest } from '../../model/worker-wire.ts';
import { type Call, type Route, route } from '../../wire/route.ts';
import { followLog } from '../execution/follow.ts';
import { MAX_WAIT_MS, type StateFeed } from '../execution/state-feed.ts';
import type { BackgroundQueue } from './background-queue.ts';
import type { Requests } from './requests.ts';

export interface GatewayRouteContext {
  readonly requests: Requests;
  readonly queue: BackgroundQueue;
  readonly feed: StateFeed;
  readonly timers: Timers;
  readonly state: () => GatewayState;
  readonly health: () => GatewayHealth;
  readonly follow: (order: SeatsOrder) => void;
  /** Called at every request of a brain. */
  readonly called: () => void;
  /** Begins the shutdown; the response does not wait for its end. */
  readonly shutdown: (graceMs: number | undefined) => void;
}

const EVENTS = 'The same events as those of a worker, see `POST /execute`';
const FENCED = 'A newer brain has taken over';
const Draining = Type.Object({ status: Type.Literal('draining') });
const tag = 'gateway';

const EventsQuery = Type.Object(
  { from: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })) },
  { additionalProperties: true },
);

const StateQuery = Type.Object(
  {
    after: Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$' })),
    wait_ms: Type.Optional(Type.String({ pattern: '^[0-9]{1,9}$' })),
  },
  { additionalProperties: false },
);

export const gatewayRoutes = (context: GatewayRouteContext): readonly Route[] => [
  ...serverRoutes(context),
  ...submitRoutes(context),
  ...requestRoutes(context),
  ...orderRoutes(context),
  ...queueRoutes(context),
];

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

function serverRoutes({
  health,
  state,
  feed,
  follow,
  called,
  shutdown,
  requests,
}: GatewayRouteContext): Route[] {
  return [
    route({
      operationId: 'getHealth',
      tag,
      method: 'GET',
      path: '/health',
      role: 'public',
      summary: 'The state of the gateway',
      ignoresQuery: true,
      answers: { 200: { description: 'Status and load', body: GatewayHealth } },
      handle: () => ({ status: 200, body: health() }),
    }),
    route({
      operationId: 'setSeats',
      tag,
      method: 'PUT',
      path: '/seats',
      role: 'operate',
      summary: 'All seats; what runs on one that is left out goes on to its end',
      body: SeatsOrder,
      answers: { 204: 'They are used from now on', 409: FENCED },
      async handle({ body, headers }) {
        await requests.callerOf(headers);
        called();
        follow(body);
        return { status: 204 };
      },
    }),
    route({
      operationId: 'getSeats',
      tag,
      method: 'GET',
      path: '/seats',
      role: 'read',
      summary: `The seats; waits for a change of version, for ${MAX_WAIT_MS} ms at most`,
      query: StateQuery,
      answers: { 200: { description: 'The state of the seats', body: GatewayState } },
      async handle({ query }) {
        called();
        const { after, wait_ms: waitMs = '0' } = query;
        await feed.waitForChange(after === undefined ? undefined : Number(after), Number(waitMs));
        called();
        return { status: 200, body: state() };
      },
    }),
    route({
      operationId: 'shutdown',
      tag,
      method: 'POST',
      path: '/shutdown',
      role: 'operate',
      summary: 'Accept no new work, finish running requests, exit',
      body: ShutdownRequest,
      answers: { 202: { description: 'The shutdown begins', body: Draining }, 409: FENCED },
      async handle({ body, headers }) {
        await requests.callerOf(headers);
        shutdown(body.grace_ms);
        return { status: 202, body: { status: 'draining' } };
      },
    }),
  ];
}

function submitRoutes({ requests, timers }: GatewayRouteContext): Route[] {
  return [
    route({
      operationId: 'isBackendBusy',
      tag,
      method: 'GET',
      path: '/backend/:name/busy',
      role: 'read',
      summary: 'Whether a request of the caller would be refused now',
      answers: {
        200: { description: 'The state of the seat', body: BusyView },
        404: 'No such seat',
        409: FENCED,
      },
      async handle({ params, headers }) {
        return { status: 200, body: await requests.busy(params['name'] ?? '', headers) };
      },
    }),
    route({
      operationId: 'submitImmediate',
      tag,
      method: 'POST',
      path: '/submit_immediate',
      role: 'operate',
      summary: 'Run a request now or not at all; the same token again returns the same request',
      body: SubmitImmediate,
      answers: {
        200: {
          description: 'The request, or its events where the caller accepts them',
          body: SubmittedRequest,
        },
        400: 'The request cannot be run',
        404: 'No such seat or model',
        409: `${FENCED}, or the token has run here: with another body, or its result is gone`,
        410: 'The token was killed before this request arrived',
        503: 'The seat is busy, with `reason` and `retry_after_ms`',
      },
      async handle({ body, headers }) {
        const execution = await requests.submit(body, headers);
        if (headers.accept?.includes('text/event-stream')) return followLog(execution.log, 0, timers);
        const state = execution.outcome ? 'ended' : 'running';
        return { status: 200, body: { request_id: execution.token, state } };
      },
    }),
  ];
}

function requestRoutes({ requests, timers }: GatewayRouteContext): Route[] {
  return [
    route({
      operationId: 'getActiveRequests',
      tag,
      method: 'GET',
      path: '/active_requests',
      role: 'read',
      summary: 'Requests of the caller that run, or have ended and are not acknowledged',
      answers: { 200: { description: 'The requests', body: ActiveRequests }, 409: FENCED },
      async handle({ headers }) {
        return { status: 200, body: await requests.active(headers) };
      },
    }),
    route({
      operationId: 'getRequest',
      tag,
      method: 'GET',
      path: '/requests/:id',
      role: 'read',
      summary: 'One request, with its outcome',
      answers: { 200: { description: 'Its state', body: RequestState }, 404: 'No such request', 409: FENCED },
      async handle(call) {
        return { status: 200, body: await requests.state(idOf(call), call.headers) };
      },
    }),
    route({
      operationId: 'followRequest',
      tag,
      method: 'GET',
      path: '/requests/:id/events',
      role: 'read',
      summary: 'The events whose number is greater than `from`',
      query: EventsQuery,
      streams: true,
      answers: {
        200: { description: 'The stream', events: EVENTS },
        404: 'No such request',
        409: `${FENCED}, or the events are gone`,
      },
      async handle(call) {
        const { log } = await requests.readable(idOf(call), call.headers);
        return followLog(log, Number(call.query.from ?? '0'), timers);
      },
    }),
  ];
}

function orderRoutes({ requests }: GatewayRouteContext): Route[] {
  return [
    route({
      operationId: 'killRequest',
      tag,
      method: 'POST',
      path: '/requests/:id/kill',
      role: 'operate',
      summary: 'End a request, or make sure that it never begins',
      body: KillRequest,
      answers: { 202: { description: 'The state of the request', body: CancelReply }, 409: FENCED },
      async handle(call) {
        const reply = await requests.kill(idOf(call), call.body.how ?? 'end', call.headers);
        return { status: 202, body: reply };
      },
    }),
    route({
      operationId: 'acknowledgeRequest',
      tag,
      method: 'POST',
      path: '/requests/:id/ack',
      role: 'operate',
      summary: 'Acknowledge a result, which may then be dropped',
      answers: {
        204: 'The result is dropped, or was not known',
        409: `${FENCED}, or the request has not ended`,
      },
      async handle(call) {
        await requests.acknowledge(idOf(call), call.headers);
        return { status: 204 };
      },
    }),
    route({
      operationId: 'eraseRequest',
      tag,
      method: 'POST',
      path: '/requests/:id/erase',
      role: 'operate',
      summary: 'Acknowledge a result, and erase what was said in the request',
      answers: {
        204: 'Nobody can read it any more, or it was not known; it is gone from the disk within seconds',
        409: `${FENCED}, or the request has not ended`,
        503: 'The disk is full',
      },
      async handle(call) {
        await requests.erase(idOf(call), call.headers);
        return { status: 204 };
      },
    }),
  ];
}

function queueRoutes({ queue }: GatewayRouteContext): Route[] {
  return [
    route({
      operationId: 'submitJob',
      tag,
      method: 'POST',
      path: '/job/submit',
      role: 'operate',
      summary: 'Put a job into the queue of the gateway, which runs when no immediate request wants the seat',
      body: QueueSubmit,
      answers: {
        202: { description: 'The job is durable', body: QueueJob },
        404: 'No such seat or model',
        429: 'The queue is full',
        503: 'The disk is full',
      },
      async handle({ body }) {
        return { status: 202, body: await queue.submit(body) };
      },
    }),
    route({
      operationId: 'getJob',
      tag,
      method: 'GET',
      path: '/job/:id',
      role: 'read',
      summary: 'A job of the queue, with its outcome',
      answers: { 200: { description: 'Its state', body: QueueJob }, 404: 'No such job' },
      handle: (call) => ({ status: 200, body: queue.view(idOf(call)) }),
    }),
    route({
      operationId: 'cancelJob',
      tag,
      method: 'POST',
      path: '/job/:id/cancel',
      role: 'operate',
      summary: 'End a job of the queue',
      answers: { 202: { description: 'Its state', body: QueueJob }, 404: 'No such job' },
      async handle(call) {
        return { status: 202, body: await queue.cancel(idOf(call)) };
      },
    }),
  ];
}
