/** The agents of a spool that are at work: their `owner.json` in `tmp/` says how many jobs each of them runs at once. */
import { isActorId, workspacePaths } from './layout.ts';
import { type Heartbeats, judgeOwner, type OwnerEvidence, readEvidence } from './owner.ts';
import { foldersIn } from './plain-files.ts';
import type { Spool } from './spool.ts';

export interface Presence {
  readonly agents: number;
  /** The slots of all of them. */
  readonly slots: number;
}

/** `heartbeats` is kept by the caller from one look to the next: it tells who is silent (O1 of owner.ts). */
export async function presentAgents(spool: Spool, heartbeats: Heartbeats): Promise<Presence> {
  const { env, paths } = spool;
  let [agents, slots] = [0, 0];
  for (const actor of await foldersIn(env.disk, paths.tmp)) {
    if (!isActorId(actor)) continue;
    const { folder, owner } = workspacePaths(paths, actor);
    const evidence = await readEvidence(env.disk, folder, owner);
    const offered = evidence?.owner?.slots;
    if (!evidence || !isSlotCount(offered) || !isAtWork(spool, heartbeats, actor, evidence)) continue;
    agents++;
    slots += offered;
  }
  heartbeats.forgetOthers();
  return { agents, slots };
}

const isSlotCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

function isAtWork(spool: Spool, heartbeats: Heartbeats, actor: string, evidence: OwnerEvidence): boolean {
  const verdict = judgeOwner(evidence, spool.host);
  if (verdict !== 'unheard') return verdict === 'alive';
  return heartbeats.silentMs(actor, evidence.heartbeatMs) < spool.settings.foreignLockTtlMs;
}
