/** The route that lists sessions: those in use, or those in the archive. */
import { SessionListQuery, SessionPage } from '../model/http/session-lists.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Route, route } from '../wire/route.ts';

export const sessionListRoutes = ({ reads }: Orchestrator): readonly Route[] => [
  route({
    operationId: 'listSessions',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions',
    role: 'read',
    summary: 'List sessions, the last used first: those in use or, with archived=true, those in the archive',
    query: SessionListQuery,
    answers: { 200: { description: 'A page of sessions', body: SessionPage } },
    handle: async ({ query, identity }) => ({
      status: 200,
      body: await reads.sessions.list({
        ...query,
        archived: query.archived === 'true',
        tenant: identity.tenant,
      }),
    }),
  }),
];
