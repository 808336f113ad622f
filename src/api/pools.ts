/** The routes of pools, their workers, and conversations. */
import { Type } from 'typebox';
import { isHttpUrl } from '../config/address.ts';
import { checker } from '../kit/check.ts';
import { workerReasonText } from '../model/causes.ts';
import { OrchdError } from '../model/errors.ts';
import { RegisterPool } from '../model/pool-wire.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Call, Route } from '../wire/route.ts';

const optional = Type.Optional;
const DAY_MS = 86_400_000;

const Drain = Type.Object(
  {
    deadline_ms: optional(Type.Integer({ minimum: 0, maximum: 30 * DAY_MS })),
    undo: optional(Type.Boolean()),
  },
  { additionalProperties: false },
);
const Reload = Type.Object(
  { new_model_ref: Type.String({ minLength: 1, maxLength: 1024 }) },
  { additionalProperties: false },
);
const Session = Type.Object(
  { token_budget: Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]) },
  { additionalProperties: false },
);

const Evict = Type.Object({ dead: optional(Type.Boolean()) }, { additionalProperties: false });

const checkEvict = checker(Evict);
const checkDrain = checker(Drain);
const checkReload = checker(Reload);
const checkSession = checker(Session);
const checkRegister = checker(RegisterPool);

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && isHttpUrl(text) && url.search === '' && url.hash === '';
}

const idOf = (call: Call): string => call.params['id'] ?? '';

export const poolRoutes = (orchestrator: Orchestrator): readonly Route[] => [
  ...viewRoutes(orchestrator),
  ...commandRoutes(orchestrator),
];

function viewRoutes({ reads, managers }: Orchestrator): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v2/pools',
      role: 'read',
      summary: 'The pools, their devices and workers',
      answers: { 200: 'The pools' },
      handle: async () => ({ status: 200, body: { pools: await reads.pools() } }),
    },
    {
      method: 'GET',
      path: '/v2/pools/:id/health',
      role: 'read',
      summary: 'How a pool is',
      answers: { 200: 'How it is', 404: 'No such pool' },
      handle: async (call) => ({ status: 200, body: await reads.pool(idOf(call)) }),
    },
    {
      method: 'POST',
      path: '/v2/pools/register',
      role: 'operate',
      summary: 'A pool manager says where it is; again and again, as a sign of life',
      body: RegisterPool,
      answers: { 200: 'Noted', 409: 'Another pool manager has the name, and answers' },
      repeatable: ({ body }) => body,
      handle: ({ body }) => {
        const { pool_id, uri, token } = checkRegister(body);
        if (!managers) throw new OrchdError('POOL_UNAVAILABLE', 'this brain works without pools');
        if (!isPlainUrl(uri)) {
          const what = '"uri" must be an http or https URL without a password, a query or a fragment';
          throw new OrchdError('INVALID_PARAMS', what, { field: 'uri' });
        }
        managers.register(uri, token, pool_id);
        return { status: 200, body: { pool_id } };
      },
    },
  ];
}

function commandRoutes({ pools, managers, reads }: Orchestrator): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/v2/pools/:id/drain',
      role: 'admin',
      summary:
        'Give a pool nothing new, and stop its workers when they are done or the deadline has passed; or undo that',
      body: Drain,
      answers: { 202: 'Ordered, and durable', 404: 'No such pool' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        const { deadline_ms, undo } = checkDrain(call.body ?? {});
        const order = undo
          ? ({ is: 'undrain' } as const)
          : ({ is: 'drain', deadlineMs: deadline_ms } as const);
        await pools.command(idOf(call), order, call.identity.name);
        return { status: 202, body: await reads.pool(idOf(call)) };
      },
    },
    {
      method: 'POST',
      path: '/v2/pools/:id/reload',
      role: 'admin',
      summary: 'Let the workers of a pool finish, and start one with another model in their place',
      body: Reload,
      answers: { 202: 'Ordered, and durable', 404: 'No such pool, or no such model' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        const order = { is: 'reload', model: checkReload(call.body).new_model_ref } as const;
        await pools.command(idOf(call), order, call.identity.name);
        return { status: 202, body: await reads.pool(idOf(call)) };
      },
    },
    {
      method: 'DELETE',
      path: '/v2/pools/:id',
      role: 'admin',
      summary: 'Declare a pool that does not answer gone for good: what ran there is tried elsewhere',
      answers: { 204: 'Forgotten', 404: 'No such pool', 409: 'It answers' },
      handle: async (call) => {
        await pools.forget(idOf(call), call.identity.name);
        managers?.forgetPool(idOf(call));
        return { status: 204 };
      },
    },
    {
      method: 'POST',
      path: '/v2/workers/:id/evict',
      role: 'admin',
      summary:
        'Stop a worker; one that has work finishes it first. With dead: its process is gone for certain',
      body: Evict,
      answers: { 202: 'Ordered, and durable', 404: 'No such worker' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        const { dead = false } = checkEvict(call.body ?? {});
        const { pool, state, why } = await pools.evict(idOf(call), call.identity.name, dead);
        return { status: 202, body: { worker_id: idOf(call), pool, state, why: workerReasonText(why) } };
      },
    },
  ];
}

export function sessionRoutes({ sessions, reads }: Orchestrator): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v2/sessions/:id',
      role: 'read',
      summary: 'A conversation: what it has used, what it may, and what runs in it',
      answers: { 200: 'The session', 404: 'No such session' },
      handle: async (call) => ({ status: 200, body: await reads.session(call.identity.tenant, idOf(call)) }),
    },
    {
      method: 'PUT',
      path: '/v2/sessions/:id',
      role: 'operate',
      summary: 'Set how many tokens a session may use; null takes its budget away',
      body: Session,
      answers: { 200: 'The session' },
      repeatable: ({ body }) => body,
      handle: async (call) => {
        const { token_budget } = checkSession(call.body);
        const id = sessionId(call);
        return {
          status: 200,
          body: await sessions.setBudget(call.identity.tenant, id, token_budget ?? undefined),
        };
      },
    },
    {
      method: 'DELETE',
      path: '/v2/sessions/:id',
      role: 'submit',
      summary: 'End a conversation, with all that is under way in it',
      answers: { 204: 'Ended', 404: 'No such session' },
      handle: async (call) => {
        await sessions.remove(call.identity.tenant, idOf(call), call.identity.name);
        return { status: 204 };
      },
    },
  ];
}

function sessionId(call: Call): string {
  const id = idOf(call);
  if (/^[A-Za-z0-9._:/@-]{1,128}$/.test(id)) return id;
  throw new OrchdError('INVALID_PARAMS', 'that cannot be the name of a session', { field: 'id' });
}
