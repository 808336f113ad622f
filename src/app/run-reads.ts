/** What runs of agents read from the brain that they run in. */
import type { RunReads } from '../agents/agents.ts';
import type { ChatMessage } from '../agents/run-state.ts';
import { OrchdError } from '../model/errors.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';

/** `of` is called when a run reads: the backends of a brain are made before the brain. */
export const runReads = (of: () => Orchestrator): RunReads => ({
  mcp: {
    pins: () => of().mcp.pins(),
    seen: (definitions) => of().mcp.seen(definitions),
    allow: (definition, by) => of().mcp.allow(definition, by),
    task: (token) => of().mcp.task(token),
    taskBegun: (token, task) => of().mcp.taskBegun(token, task),
    taskEnded: (token) => of().mcp.taskEnded(token),
  },
  job: (id, tenant) => of().getResult(id, tenant),
  recorded: (id, tenant, known) => of().reads.recordedJob(id, tenant, known),
  submit: (request, { tenant, submittedBy, traceBelow }) =>
    of().submit(request, { tenant, submittedBy, principal: submittedBy, trace: traceBelow }),
  hasSession: async (session, tenant) => {
    try {
      await of().reads.sessions.get(tenant, session);
      return true;
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'NOT_FOUND') return false;
      throw error;
    }
  },
  conversation: async (session, tenant) =>
    (await of().reads.sessions.messages(tenant, session)) as readonly ChatMessage[],
});
