/**
 * Cancels a job when its caller disconnects before the end, if `on_disconnect` is `cancel` (the default for
 * interactive jobs that are no runs of agents, and no calls of runs). The job goes on if it still has other followers, if the caller's role may only read, or if the
 * brain closed the connection itself: because it stops, or because the caller's token was revoked.
 */
import type { Timers } from '../kit/env/env.ts';
import type { JobSpec } from '../model/job-spec.ts';
import { uidOf } from '../model/records.ts';
import { RUN_TYPE } from '../model/run-jobs.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import { grants, type Identity } from '../wire/tokens.ts';

export interface DisconnectOptions {
  readonly timers: Timers;
  /** How long the reader of a resumable stream may stay disconnected before its job is cancelled. */
  readonly graceMs: number;
  /** Whether the token of a caller has been revoked since the caller was accepted. */
  readonly isRevoked: (identity: Identity) => boolean;
}

export class Disconnects {
  readonly #orchestrator: Orchestrator;
  readonly #options: DisconnectOptions;

  constructor(orchestrator: Orchestrator, options: DisconnectOptions) {
    this.#orchestrator = orchestrator;
    this.#options = options;
  }

  /** The reader of a resumable stream disconnected: the job is cancelled unless it is followed again in time. */
  resumableReaderLeft(jobId: string, identity: Identity): void {
    if (!this.#endsJob(jobId, identity)) return;
    const { timers, graceMs } = this.#options;
    timers.after(graceMs, () => this.cancelUnlessFollowed(jobId, identity));
  }

  /** Cancels the job unless one of the conditions above keeps it. Called directly if the answer cannot be resumed. */
  cancelUnlessFollowed(jobId: string, identity: Identity): void {
    if (!this.#endsJob(jobId, identity)) return;
    const { tenant, name } = identity;
    this.#orchestrator.orders.cancel(jobId, `${name} (disconnected)`, tenant).catch(() => undefined);
  }

  #endsJob(jobId: string, identity: Identity): boolean {
    const { tenant, role } = identity;
    const { following, reads } = this.#orchestrator;
    if (this.#options.isRevoked(identity)) return false;
    const uid = uidOf(tenant, jobId);
    if (!grants(role, 'submit') || following.closed || following.followersOf(uid) > 0) return false;
    const spec = reads.spec(uid);
    if (!spec) return false;
    return (spec.on_disconnect ?? this.#defaultFor(spec, tenant)) === 'cancel';
  }

  /** Runs and their calls go on: whoever looks at one of them is not the one who waits for the run. */
  #defaultFor({ type, priority, parent_id: parent }: JobSpec, tenant: string): JobSpec['on_disconnect'] {
    const above = parent === undefined ? undefined : this.#orchestrator.reads.spec(uidOf(tenant, parent));
    const isOfRun = type === RUN_TYPE || above?.type === RUN_TYPE;
    return priority === 'interactive' && !isOfRun ? 'cancel' : 'continue';
  }
}
