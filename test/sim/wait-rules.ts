/** What holds for jobs that wait without an attempt, by the state of the engine and by the raw log. */
import { childrenHaveEnded, endOfEntry } from '../../src/core/state/end-waiters.ts';
import type { State } from '../../src/core/state/state.ts';
import { type AskRecord, type Change, type JobRecord, uidOf } from '../../src/model/records.ts';
import type { WaitRecord } from '../../src/model/waiting.ts';
import { check } from './check.ts';

/**
 * No wake is lost: a waiting job whose jobs have ended is about to be woken, or to be ended where its deadline has come, and
 * one with an instant has a timer. `now` is brain time.
 */
export function checkWakes(state: State, now: number): void {
  for (const entry of state.jobs.values()) {
    const { job, ask, uid } = entry;
    if (job.state !== 'waiting') continue;
    check(entry.open === undefined, `${uid} waits without an attempt`);
    const wait = job.wait as WaitRecord;
    if (wait.until !== undefined)
      check(entry.wakeAt <= wait.until, `${uid} has a timer for the instant that it waits for`);
    if (wait.children.length === 0) {
      check(wait.until !== undefined || wait.step > 0, `${uid} waits for something`);
      continue;
    }
    const live = wait.children.filter((id) => !endOfEntry(state.jobs.get(uidOf(ask.tenant, id)))).length;
    const mayGoOn = wait.needs === 'any' ? live < wait.children.length : live === 0;
    if (!mayGoOn || state.waiters.unsettled.length > 0) continue;
    check(childrenHaveEnded(entry), `${uid} knows that ${wait.children} have ended`);
    const { deadlineAt = Number.POSITIVE_INFINITY } = entry;
    if (deadlineAt <= now) check(entry.wakeAt <= now, `${uid} is about to be ended, at ${now}`);
    else check(state.waiters.wakeable.has(entry), `${uid} is about to be woken, at ${now}`);
  }
}

/** The log: a job below another one is there if, and only if, the wait that asked for it is. */
export function checkYields(frames: readonly (readonly Change[])[]): void {
  const asks = new Map<string, AskRecord>();
  const waits = new Map<string, JobRecord>();
  for (const frame of frames) {
    const begun = new Set<string>();
    const children: AskRecord[] = [];
    for (const { kind, id, after } of frame) {
      if (kind === 'ask' && after) {
        if (after.spec.parent_id !== undefined && !asks.has(id)) children.push(after);
        asks.set(id, after);
      }
      if (kind !== 'job' || !after) continue;
      waits.set(id, after);
      if (after.state === 'waiting') begun.add(id);
    }
    for (const uid of begun) {
      const { wait } = waits.get(uid) as JobRecord;
      const { tenant } = asks.get(uid) as AskRecord;
      for (const child of wait?.children ?? [])
        check(
          asks.has(uidOf(tenant, child)),
          `${child} is admitted in the commit in which ${uid} waits for it`,
        );
    }
    for (const { id, tenant, spec } of children) {
      const parent = waits.get(uidOf(tenant, spec.parent_id as string));
      check(
        parent?.wait?.children.includes(id) === true,
        `${id} is admitted in the commit in which ${spec.parent_id} waits for it`,
      );
    }
  }
}
