/** The routes of sessions: create, read, change, fork, export and end one, and set its token budget. */
import { checkConversation } from '../model/conversation.ts';
import { OrchdError } from '../model/errors.ts';
import {
  CreateSession,
  ExportedSession,
  ForkSession,
  SessionMessages,
  SessionMetadata,
  SessionView,
  SetSession,
} from '../model/http/sessions.ts';
import { NAME } from '../model/job-spec.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { type Call, type Route, route } from '../wire/route.ts';
import { grants } from '../wire/tokens.ts';

const isName = new RegExp(NAME);

const idOf = ({ params }: Pick<Call, 'params'>): string => params['id'] ?? '';

export const sessionRoutes = (
  { sessions, reads }: Pick<Orchestrator, 'sessions' | 'reads'>,
  newSessionId: () => string,
): readonly Route[] => [
  ...conversationRoutes({ sessions, reads }, newSessionId),
  route({
    operationId: 'getSession',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions/:id',
    role: 'read',
    summary: 'A session: its token use and budget, its backend and its jobs',
    answers: { 200: { description: 'The session', body: SessionView }, 404: 'No such session' },
    handle: async (call) => ({
      status: 200,
      body: await reads.sessions.get(call.identity.tenant, idOf(call)),
    }),
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
    logsRefusals: true,
    answers: { 204: 'Ended', 404: 'No such session' },
    handle: async (call) => {
      const { tenant, name, role } = call.identity;
      await sessions.remove(tenant, idOf(call), name, !grants(role, 'operate'));
      return { status: 204 };
    },
  }),
];

/** Conversations: what was said in a session, and what a front end keeps about it. */
const conversationRoutes = (
  { sessions, reads }: Pick<Orchestrator, 'sessions' | 'reads'>,
  newSessionId: () => string,
): readonly Route[] => [
  route({
    operationId: 'createSession',
    tag: 'sessions',
    method: 'POST',
    path: '/v2/sessions',
    role: 'submit',
    summary: 'Create a session; the first job of a session that is not there creates it too',
    body: CreateSession,
    answers: {
      201: { description: 'The session', body: SessionView },
      409: 'There is a session with this id',
      507: 'The disk is full',
    },
    handle: async ({ body, identity: { tenant } }) => {
      const { session_id: id = newSessionId(), ...content } = body;
      checkConversation(content.messages ?? []);
      return { status: 201, body: await sessions.create(tenant, id, content) };
    },
  }),
  route({
    operationId: 'changeSession',
    tag: 'sessions',
    method: 'PUT',
    path: '/v2/sessions/:id/metadata',
    role: 'submit',
    summary: 'Replace the metadata of a session',
    logsRefusals: true,
    body: SessionMetadata,
    answers: { 200: { description: 'The session', body: SessionView }, 404: 'No such session' },
    repeatable: ({ body }) => body,
    handle: async (call) => ({
      status: 200,
      body: await sessions.change(call.identity.tenant, idOf(call), call.body),
    }),
  }),
  route({
    operationId: 'getSessionMessages',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions/:id/messages',
    role: 'read',
    summary: 'The messages of a session: what its runs have heard and said',
    answers: { 200: { description: 'All of them', body: SessionMessages }, 404: 'No such session' },
    handle: async (call) => {
      const { session_id, messages } = await exported(reads, call);
      return { status: 200, body: { session_id, messages } };
    },
  }),
  route({
    operationId: 'exportSession',
    tag: 'sessions',
    method: 'GET',
    path: '/v2/sessions/:id/export',
    role: 'read',
    summary: 'A session with all of its messages, to be kept elsewhere',
    answers: { 200: { description: 'The session', body: ExportedSession }, 404: 'No such session' },
    handle: async (call) => {
      const { session, messages } = await exported(reads, call);
      return { status: 200, body: { session, messages } };
    },
  }),
  route({
    operationId: 'forkSession',
    tag: 'sessions',
    method: 'POST',
    path: '/v2/sessions/:id/fork',
    role: 'submit',
    summary: 'Create a session that begins with the messages and the metadata of this one',
    logsRefusals: true,
    body: ForkSession,
    answers: {
      201: { description: 'The new session', body: SessionView },
      404: 'No such session',
      409: 'There is a session with this id',
      507: 'The disk is full',
    },
    handle: async (call) => {
      const { session_id: newId = newSessionId() } = call.body;
      return { status: 201, body: await sessions.fork(call.identity.tenant, idOf(call), newId) };
    },
  }),
];

async function exported(
  reads: Orchestrator['reads'],
  call: Pick<Call, 'params' | 'identity'>,
): Promise<ExportedSession & SessionMessages> {
  const { tenant } = call.identity;
  const session = await reads.sessions.get(tenant, idOf(call));
  const messages = (await reads.sessions.messages(tenant, session.session_id)) as SessionMessages['messages'];
  return { session, session_id: session.session_id, messages };
}

/** The session id in the path, checked because the route creates a session that does not exist yet. */
function newIdOf(call: Pick<Call, 'params'>): string {
  const id = idOf(call);
  if (isName.test(id)) return id;
  throw new OrchdError('INVALID_PARAMS', 'this is not a valid session id', { field: 'id' });
}
