/** The routes of sessions: read one, set its token budget, end it. */
import { OrchdError } from '../model/errors.ts';
import { SessionView, SetSession } from '../model/http/sessions.ts';
import { NAME } from '../model/job-spec.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { grants } from '../wire/tokens.ts';

const isName = new RegExp(NAME);

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

export const sessionRoutes = ({ sessions, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getSession',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions/:id',
    role: 'read',
    summary: 'A session: its token use and budget, its backend and its jobs',
    answers: { 200: { description: 'The session', body: SessionView }, 404: 'No such session' },
    handle: async (call) => ({ status: 200, body: await reads.session(call.identity.tenant, idOf(call)) }),
  }),
  route({
    operationId: 'setSession',
    tag: 'sessions',
    method: 'PUT',
    path: '/v2/sessions/:id',
    role: 'operate',
    summary: 'Set the token budget of a session; null removes it',
    body: SetSession,
    answers: { 200: { description: 'The session', body: SessionView } },
    repeatable: ({ body }) => body,
    handle: async (call) => {
      const budget = call.body.token_budget ?? undefined;
      return { status: 200, body: await sessions.setBudget(call.identity.tenant, newIdOf(call), budget) };
    },
  }),
  route({
    operationId: 'endSession',
    tag: 'sessions',
    method: 'DELETE',
    path: '/v2/sessions/:id',
    role: 'submit',
    summary:
      'End a session and cancel its jobs; a budget and what was used of it stay, unless the caller may set budgets',
    answers: { 204: 'Ended', 404: 'No such session' },
    handle: async (call) => {
      const { tenant, name, role } = call.identity;
      await sessions.remove(tenant, idOf(call), name, !grants(role, 'operate'));
      return { status: 204 };
    },
  }),
];

/** The session id in the path, checked because the route creates a session that does not exist yet. */
function newIdOf(call: Pick<Call, 'params'>): string {
  const id = idOf(call);
  if (isName.test(id)) return id;
  throw new OrchdError('INVALID_PARAMS', 'this is not a valid session id', { field: 'id' });
}
