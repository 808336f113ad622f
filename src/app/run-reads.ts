/** What runs of agents read from the brain that they run in. */
import type { RunReads } from '../agents/agents.ts';
import type { ChatMessage } from '../agents/run-state.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';

/** `of` is called when a run reads: the backends of a brain are made before the brain. */
export const runReads = (of: () => Orchestrator): RunReads => ({
  get mcp() {
    return of().mcp;
  },
  job: (id, tenant) => of().getResult(id, tenant),
  conversation: async (session, tenant) =>
    (await of().reads.sessions.messages(tenant, session)) as readonly ChatMessage[],
});
