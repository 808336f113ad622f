/** The routes of consumers: processes that ask for work, and report what became of it. */
import {
  ClaimAnswer,
  ClaimBody,
  ConsumerBody,
  ConsumerEvents,
  ConsumerLeft,
  ConsumerList,
  ConsumerRegistered,
  ConsumerResults,
  ConsumerView,
  EventsTaken,
  HeldAnswer,
  HeldBody,
  ResultsRecorded,
} from '../model/http/consumers.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

const GONE = 'No consumer is registered under this id';

export const consumerRoutes = (orchestrator: Orchestrator, newId: () => string): readonly Route[] => [
  ...operatorRoutes(orchestrator),
  registerRoute(orchestrator, newId),
  claimRoute(orchestrator),
  ...reportRoutes(orchestrator),
];

const operatorRoutes = ({ consumers }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listConsumers',
    tag: 'consumers',
    method: 'GET',
    path: '/v2/consumers',
    role: 'read',
    scope: 'global',
    summary: 'The consumers with their pools, their state and what they hold',
    answers: { 200: { description: 'The consumers', body: ConsumerList } },
    handle: async () => ({ status: 200, body: { consumers: await consumers.list() } }),
  }),
  route({
    operationId: 'drainConsumer',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers/:pool/:name/drain',
    role: 'operate',
    scope: 'global',
    summary: 'Let a consumer finish what it holds, and give it nothing new',
    answers: { 202: { description: 'Ordered, and durable', body: ConsumerView }, 404: 'No such consumer' },
    repeatable: () => undefined,
    handle: async ({ params, identity }) => ({
      status: 202,
      body: await consumers.drain(`${params['pool']}/${params['name']}`, identity.name),
    }),
  }),
];

const registerRoute = ({ consumers }: Orchestrator, newId: () => string): Route =>
  route({
    operationId: 'registerConsumer',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers',
    role: 'consumer',
    scope: 'global',
    summary: 'Register as a consumer of a pool',
    body: ConsumerBody,
    answers: {
      201: { description: 'Registered, and durable', body: ConsumerRegistered },
      409: 'The consumers of the pool declare otherwise, or have this name',
    },
    repeatable: ({ body }) =>
      typeof body === 'object' && body !== null && !('consumer_id' in body)
        ? { ...body, consumer_id: newId() }
        : body,
    handle: async ({ body }) => ({ status: 201, body: await consumers.register(body) }),
  });

const claimRoute = ({ consumers }: Orchestrator): Route =>
  route({
    operationId: 'claimJobs',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers/:id/claim',
    role: 'consumer',
    scope: 'global',
    summary: 'Take jobs that wait for the pool, or wait for some; only then may they be begun',
    body: ClaimBody,
    isProxied: true,
    answers: { 200: { description: 'Claimed, and durable', body: ClaimAnswer }, 410: GONE },
    handle: async (call) => ({
      status: 200,
      json: await consumers.claim(idOf(call), call.body, call.onDisconnect),
    }),
  });

const reportRoutes = ({ consumers }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'consumerHeartbeat',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers/:id/heartbeat',
    role: 'consumer',
    scope: 'global',
    summary: 'Say what the consumer holds, and hear what it is to stop',
    body: HeldBody,
    answers: { 200: { description: 'What it is to do', body: HeldAnswer }, 410: GONE },
    repeatable: ({ body }) => body,
    handle: async (call) => ({ status: 200, body: await consumers.heartbeat(idOf(call), call.body) }),
  }),
  route({
    operationId: 'sendConsumerEvents',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers/:id/events',
    role: 'consumer',
    scope: 'global',
    summary: 'Pass on tokens of answers to those who follow the jobs',
    body: ConsumerEvents,
    answers: { 200: { description: 'Taken', body: EventsTaken }, 410: GONE },
    repeatable: ({ body }) => body,
    handle: async (call) => ({ status: 200, body: await consumers.takeEvents(idOf(call), call.body) }),
  }),
  route({
    operationId: 'reportResults',
    tag: 'consumers',
    method: 'POST',
    path: '/v2/consumers/:id/results',
    role: 'consumer',
    scope: 'global',
    summary: 'Report how attempts have ended, or give back those that were not begun',
    body: ConsumerResults,
    answers: {
      200: { description: 'An answer for each, in the same order', body: ResultsRecorded },
      410: GONE,
    },
    repeatable: ({ body }) => body,
    handle: async (call) => ({ status: 200, body: await consumers.results(idOf(call), call.body) }),
  }),
  route({
    operationId: 'removeConsumer',
    tag: 'consumers',
    method: 'DELETE',
    path: '/v2/consumers/:id',
    role: 'consumer',
    scope: 'global',
    summary: 'Leave; what it still holds is of unknown outcome',
    answers: { 200: { description: 'It has left', body: ConsumerLeft }, 410: GONE },
    repeatable: () => undefined,
    handle: async (call) => {
      await consumers.leave(idOf(call));
      return { status: 200, body: { left: true } };
    },
  }),
];
