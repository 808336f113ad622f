/**
 * Cancels a job when its caller disconnects before the end, if `on_disconnect` is `cancel` (the default for
 * interactive jobs). The job goes on if it still has other followers, if the caller's role may only read, or if the
 * brain closed the connection itself.
 */
import type { Timers } from '../kit/env/env.ts';
import { uidOf } from '../model/records.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { grants, type Identity } from '../wire/tokens.ts';

export class Disconnects {
  readonly #orchestrator: Orchestrator;
  readonly #timers: Timers;
  readonly #graceMs: number;

  /** `graceMs`: how long the reader of a resumable stream may stay disconnected before its job is cancelled. */
  constructor(orchestrator: Orchestrator, timers: Timers, graceMs: number) {
    this.#orchestrator = orchestrator;
    this.#timers = timers;
    this.#graceMs = graceMs;
  }

  /** The reader of a resumable stream disconnected: the job is cancelled unless it is followed again in time. */
  resumableReaderLeft(jobId: string, identity: Identity): void {
    if (!this.#endsJob(jobId, identity)) return;
    this.#timers.after(this.#graceMs, () => this.cancelUnlessFollowed(jobId, identity));
  }

  /** Cancels the job unless one of the conditions above keeps it. Called directly if the answer cannot be resumed. */
  cancelUnlessFollowed(jobId: string, identity: Identity): void {
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
