/** The routes of conversations. */
import { OrchdError } from '../model/errors.ts';
import { SessionView, SetSession } from '../model/http/sessions.ts';
import { NAME } from '../model/job-spec.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';

const isName = new RegExp(NAME);

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

export const sessionRoutes = ({ sessions, reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'getSession',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions/:id',
    role: 'read',
    summary: 'A conversation: what it has used, what it may, and what runs in it',
    answers: { 200: { description: 'The session', body: SessionView }, 404: 'No such session' },
    handle: async (call) => ({ status: 200, body: await reads.session(call.identity.tenant, idOf(call)) }),
  }),
  route({
    operationId: 'setSession',
    tag: 'sessions',
    method: 'PUT',
    path: '/v2/sessions/:id',
    role: 'operate',
    summary: 'Set how many tokens a session may use; null takes its budget away',
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
    summary: 'End a conversation, with all that is under way in it',
    answers: { 204: 'Ended', 404: 'No such session' },
    handle: async (call) => {
      await sessions.remove(call.identity.tenant, idOf(call), call.identity.name);
      return { status: 204 };
    },
  }),
];

/** The id of a session that may not exist yet. */
function newIdOf(call: Pick<Call, 'params'>): string {
  const id = idOf(call);
  if (isName.test(id)) return id;
  throw new OrchdError('INVALID_PARAMS', 'that cannot be the name of a session', { field: 'id' });
}
