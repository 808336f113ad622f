/** Brains whose sessions leave memory soon, and what their tests ask of them. */
import type { SessionView } from '../../src/model/http/sessions.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { MeteredProvider } from '../fakes/metered.ts';
import { eventually } from './site-client.ts';

/** The shortest time that sessions may be idle. */
export const ARCHIVING = `
sessions: {archive_after_sec: 1}
orchestrator: {recovery: {sweep_interval_ms: 50}}
`;

/** Sessions stay in memory. */
export const LASTING_SESSIONS = 'orchestrator: {recovery: {sweep_interval_ms: 50}}';

/** Counts tokens for every job. */
export const provider = (): MeteredProvider => new MeteredProvider('meter', ['m']);

export const JOB = { type: 'inference', model: 'm', payload: { tries: ['succeed'] } } as const;

/** Runs a job in a session. */
export async function useSession(brain: Orchestrator, id: string, tenant = 'default'): Promise<SessionView> {
  const { job_id } = await brain.submit({ ...JOB, session_id: id }, { tenant });
  await brain.wait(job_id, tenant);
  return brain.reads.sessions.get(tenant, id);
}

/** Resolves to the session once it is in the archive. */
export const archivedSession = (brain: Orchestrator, id: string, tenant = 'default'): Promise<SessionView> =>
  eventually(`session ${id} is archived`, async () => {
    const session = await brain.reads.sessions.get(tenant, id);
    return session.archived === true && session;
  });
