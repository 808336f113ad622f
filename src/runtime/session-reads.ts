/** Reads of one session, in memory or in the archive. */
import type { Engine } from '../core/engine/engine.ts';
import type { SessionMetadata, SessionView } from '../model/http/sessions.ts';
import type { SessionRecord } from '../model/records.ts';
import type { Bodies } from './bodies.ts';
import type { SessionArchive } from './session-archive.ts';
import { sessionView } from './views.ts';

export interface SessionReadsParts {
  readonly engine: Engine;
  readonly bodies: Bodies;
  readonly sessionArchive: SessionArchive;
}

/** An archived session does not come back for being read. */
export async function readSession(
  { engine, sessionArchive }: SessionReadsParts,
  tenant: string,
  id: string,
): Promise<SessionRecord | undefined> {
  const inMemory = engine.state.sessionOf(tenant, id);
  if (inMemory) return inMemory;
  const archived = await sessionArchive.find(tenant, id);
  return engine.state.sessionOf(tenant, id) ?? archived;
}

/** The view of a session as it is now. */
export async function viewOfSession(
  { engine, bodies }: SessionReadsParts,
  record: SessionRecord,
): Promise<SessionView> {
  const isArchived = engine.state.sessionOf(record.tenant, record.id) === undefined;
  const view = sessionView(engine.state, record, isArchived);
  if (record.metadata === undefined) return view;
  return { ...view, metadata: JSON.parse(await bodies.read(record.metadata)) as SessionMetadata };
}
