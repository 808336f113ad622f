/** A claimed job as its consumer gets it. */
import type { JobEntry } from '../../core/state/job-entry.ts';
import { attemptLeaseId } from '../../core/state/leases.ts';
import type { Timers } from '../../kit/env/env.ts';
import type { ClaimedJob } from '../../model/http/consumers.ts';
import type { Shape } from '../../model/http/shape.ts';
import type { LeaseRecord } from '../../model/lease-record.ts';
import { uidOf } from '../../model/records.ts';
import { traceparentOf } from '../../model/trace.ts';
import type { Bodies } from '../bodies.ts';
import { cappedPayload } from '../capped-payload.ts';
import { withMember } from '../job-text.ts';

type Described = Omit<Shape<typeof ClaimedJob>, 'payload'>;

/** As JSON text: the payload is stored and sent as text, and not parsed in between. */
export async function claimedJobText(
  entry: JobEntry,
  bodies: Bodies,
  now: number,
  timers: Timers,
  lease: LeaseRecord | undefined,
): Promise<string> {
  const { ask, open } = entry;
  const payload = await cappedPayload(await bodies.read(ask.payload), open?.maxTokens, timers);
  return withMember(
    JSON.stringify({ ...described(entry, now), ...(lease && leaseOf(entry.token, lease)) }),
    'payload',
    payload,
  );
}

function described({ ask, job, token, deadlineAt }: JobEntry, now: number): Described {
  const { spec, tenant, id, correlationId } = ask;
  const model = job.place?.model ?? spec.model;
  const traceparent = traceparentOf(uidOf(tenant, id), ask, job.attempt);
  return {
    token,
    job_id: id,
    tenant,
    attempt: job.attempt,
    type: spec.type,
    ...(model !== undefined && { model }),
    ...(spec.timeout_ms !== undefined && { timeout_ms: spec.timeout_ms }),
    ...(deadlineAt !== undefined && { deadline_ms: Math.max(0, deadlineAt - now) }),
    ...(spec.session_id !== undefined && { session_id: spec.session_id }),
    ...(correlationId !== undefined && { correlation_id: correlationId }),
    ...(traceparent !== undefined && { traceparent }),
    ...(spec.tags && { tags: { ...spec.tags } }),
  };
}

function leaseOf(
  token: string,
  { fence, pool, gpuIndex, minMemoryMb }: LeaseRecord,
): Pick<Described, 'lease'> {
  if (gpuIndex === undefined) return {};
  return {
    lease: {
      token: attemptLeaseId(token),
      fence,
      pool: pool ?? null,
      gpu_index: gpuIndex,
      memory_mb: minMemoryMb,
    },
  };
}
