/** The commands that change a job: cancel, pause, resume, redrive, resolve. Each resolves when its effect is durable. */
import type { ResolveAs } from '../core/attempts/operator-commands.ts';
import type { EngineEvent } from '../core/engine/areas.ts';
import type { Engine } from '../core/engine/engine.ts';
import { checker } from '../kit/check.ts';
import type { Env } from '../kit/env/env.ts';
import type { BodySize } from '../kit/slices.ts';
import { INLINE_BODY_BYTES } from '../model/body.ts';
import { type ErrorInfo, errorInfo, OrchdError } from '../model/errors.ts';
import { ResolveRequest } from '../model/submit.ts';
import type { Bodies, TextOwner } from './bodies.ts';
import type { Loop } from './loop.ts';
import { parsedText, uidFor } from './prepare.ts';
import type { Reads } from './reads.ts';
import type { SessionArchive } from './session-archive.ts';
import type { Submissions } from './submissions.ts';

const checkResolve = checker(ResolveRequest);

export interface JobOrdersParts {
  readonly env: Pick<Env, 'timers'>;
  readonly loop: Loop;
  readonly reads: Reads;
  readonly bodies: Bodies;
  readonly submissions: Submissions;
  readonly sessionArchive: SessionArchive;
  readonly engine: Engine;
  /** Throws if the brain does not run. */
  readonly assertOpen: () => void;
}

export class JobOrders {
  readonly #parts: JobOrdersParts;

  constructor(parts: JobOrdersParts) {
    this.#parts = parts;
  }

  cancel(jobId: string, by: string, tenant: string): Promise<void> {
    return this.#order(jobId, tenant, (uid) => ({ type: 'cancel', uid, by }));
  }

  /** Neither the job nor one below it starts an attempt until it is resumed. */
  pause(jobId: string, by: string, tenant: string): Promise<void> {
    return this.#order(jobId, tenant, (uid) => ({ type: 'pause-job', uid, by }));
  }

  resume(jobId: string, by: string, tenant: string): Promise<void> {
    return this.#order(jobId, tenant, (uid) => ({ type: 'resume-job', uid, by }));
  }

  async redrive(jobId: string, by: string, tenant: string): Promise<void> {
    const [refusal] = await this.redriveAll([jobId], by, tenant);
    if (refusal) throw refusal;
  }

  /** Queues dead jobs again, in this order; returns the refusal of each that is refused. */
  async redriveAll(
    jobIds: readonly string[],
    by: string,
    tenant: string,
  ): Promise<readonly (OrchdError | undefined)[]> {
    const orders = await this.#redriveOrders(jobIds, by, tenant);
    return Promise.all(
      jobIds.map((id, at) => refusalOf(this.#order(id, tenant, () => orders[at] as EngineEvent))),
    );
  }

  /** Reads from the history what the engine has to know. It is valid only while no job has left memory since. */
  async #redriveOrders(jobIds: readonly string[], by: string, tenant: string): Promise<EngineEvent[]> {
    const { submissions, engine, sessionArchive } = this.#parts;
    for (;;) {
      const { evictions } = submissions;
      const orders = await Promise.all(
        jobIds.map(async (id): Promise<EngineEvent> => {
          const uid = uidFor(tenant, id);
          const known = await submissions.findEvicted(uid);
          const ask = known?.ask ?? engine.state.jobs.get(uid)?.ask;
          const ends = ask && (await submissions.knownEnds(ask));
          const session = ask?.spec.session_id;
          const lookup = session === undefined ? undefined : await sessionArchive.look(tenant, session);
          const parentId = ask?.spec.parent_id;
          const parent =
            parentId === undefined ? undefined : await submissions.findEvicted(uidFor(tenant, parentId));
          return { type: 'redrive', uid, by, known, parent, ends, lookup };
        }),
      );
      if (evictions === submissions.evictions) return orders;
    }
  }

  /** `bodySize`: that of the request that `how` was parsed from. */
  async resolve(
    jobId: string,
    how: ResolveRequest,
    by: string,
    tenant: string,
    bodySize?: BodySize,
  ): Promise<void> {
    const { assertOpen, bodies, env } = this.#parts;
    assertOpen();
    const checked = checkResolve(how);
    const store = async (result: unknown) => {
      const text = await parsedText(result, bodySize, env.timers);
      const owner = this.#ownerOf(jobId, tenant);
      if (!owner) throw await this.#endedError(jobId, tenant);
      return bodies.store(text, owner);
    };
    const stored = async (): Promise<ResolveAs> => {
      if (checked.as === 'succeeded') return { as: 'succeeded', result: await store(checked.result) };
      if (checked.as === 'retry' || checked.message === undefined) return { as: checked.as };
      return { as: 'failed', error: await this.#errorOf(checked.message, jobId, tenant) };
    };
    const resolved = await stored();
    return this.#order(jobId, tenant, (uid) => ({ type: 'resolve', uid, by, how: resolved }));
  }

  /** What somebody says about a job of a session is sealed, like what its executor says. */
  async #errorOf(message: string, jobId: string, tenant: string): Promise<ErrorInfo> {
    const error = errorInfo('UNKNOWN_OUTCOME', message);
    const { session } = this.#ownerOf(jobId, tenant) ?? {};
    return session === undefined ? error : this.#parts.bodies.seals.sealError(error, { tenant, session });
  }

  /** Answers the wait with this number of a waiting job: each is answered once, and not after it has ended. */
  async answer(jobId: string, step: number, answer: unknown, tenant: string): Promise<void> {
    const plain = JSON.stringify(answer) ?? 'null';
    const { session } = this.#ownerOf(jobId, tenant) ?? {};
    if (Buffer.byteLength(plain) > INLINE_BODY_BYTES)
      throw new OrchdError('INVALID_PARAMS', `an answer has at most ${INLINE_BODY_BYTES} bytes`);
    const text =
      session === undefined ? plain : await this.#parts.bodies.seals.seal(plain, { tenant, session });
    return this.#order(jobId, tenant, (uid) => ({ type: 'answer', uid, step, answer: text }));
  }

  /** Undefined for a job that is not in memory any more, which takes no text: nobody knows here how to seal it. */
  #ownerOf(jobId: string, tenant: string): TextOwner | undefined {
    const ask = this.#parts.engine.state.jobs.get(uidFor(tenant, jobId))?.ask;
    return ask && { tenant, session: ask.spec.session_id };
  }

  /** Throws NOT_FOUND if there is no such job. */
  async #endedError(jobId: string, tenant: string): Promise<OrchdError> {
    return new OrchdError(
      'ILLEGAL_STATE',
      `"${jobId}" is ${await this.#parts.reads.jobState(jobId, tenant)}`,
    );
  }

  async #order(jobId: string, tenant: string, event: (uid: string) => EngineEvent): Promise<void> {
    const { assertOpen, loop, reads } = this.#parts;
    assertOpen();
    const order = event(uidFor(tenant, jobId));
    const reply = await loop.askUntilDone(order);
    if (!(reply instanceof OrchdError)) return;
    if (reply.code !== 'NOT_FOUND') throw reply;
    // The job has ended and left memory: a cancel has no effect, and any other command is illegal in its state.
    const state = await reads.jobState(jobId, tenant);
    if (order.type === 'cancel') return;
    // The job left memory after `findEvicted` looked: repeat the redrive, which finds it in the history now.
    if (order.type === 'redrive' && state === 'dead') return this.redrive(jobId, order.by, tenant);
    throw new OrchdError('ILLEGAL_STATE', `"${jobId}" is ${state}`);
  }
}

/** The OrchdError with which an order is refused, as a value. */
export async function refusalOf(order: Promise<void>): Promise<OrchdError | undefined> {
  try {
    await order;
    return undefined;
  } catch (error) {
    if (error instanceof OrchdError) return error;
    throw error;
  }
}
