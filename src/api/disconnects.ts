/**
 * What becomes of a job when its caller leaves before the end. It is cancelled where `on_disconnect` says so, unless
 * somebody else still follows it, the caller may only read, or the brain itself has closed the connection.
 */
import type { Timers } from '../kit/env/env.ts';
import { uidOf } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { grants, type Identity } from '../wire/tokens.ts';

export class Disconnects {
  readonly #orchestrator: Orchestrator;
  readonly #timers: Timers;
  readonly #graceMs: number;

  /** `graceMs`: how long the caller of a stream that can be resumed may stay away. */
  constructor(orchestrator: Orchestrator, timers: Timers, graceMs: number) {
    this.#orchestrator = orchestrator;
    this.#timers = timers;
    this.#graceMs = graceMs;
  }

  /** The caller may come back to this stream with its last event id. */
  leftResumable(jobId: string, identity: Identity): void {
    if (!this.#endsJob(jobId, identity)) return;
    this.#timers.after(this.#graceMs, () => this.leftForGood(jobId, identity));
  }

  /** Nobody can come back to this answer. */
  leftForGood(jobId: string, identity: Identity): void {
    if (!this.#endsJob(jobId, identity)) return;
    const { tenant, name } = identity;
    this.#orchestrator.cancel(jobId, `${name} (disconnected)`, tenant).catch(() => undefined);
  }

  #endsJob(jobId: string, { tenant, role }: Identity): boolean {
    const { following, reads } = this.#orchestrator;
    const uid = uidOf(tenant, jobId);
    if (!grants(role, 'submit') || following.closed || following.followersOf(uid) > 0) return false;
    const spec = reads.spec(uid);
    if (!spec) return false;
    return (spec.on_disconnect ?? (spec.priority === 'interactive' ? 'cancel' : 'continue')) === 'cancel';
  }
}
