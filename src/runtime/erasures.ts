/**
 * Drops the keys of deleted sessions and what is left of them in the archive, and tells the executors to erase what they
 * keep of them. The record of a deletion is
 * the order to do so: it is carried out once it is durable, repeated until it succeeds, by the next brain too, and then
 * removed.
 */
import type { Engine } from '../core/engine/engine.ts';
import type { KeyOwner } from '../core/ports/keys.ts';
import type { ErasureRecord } from '../model/erasure-record.ts';
import { type Change, scoped } from '../model/records.ts';
import type { Bodies } from './bodies.ts';
import type { EffectRunner } from './effect-runner.ts';
import { ExecutorErasure, type ExecutorErasureParts } from './executor-erasure.ts';
import type { Loop } from './loop.ts';
import type { SessionArchive } from './session-archive.ts';

/** Sessions that are deleted at once with their origin: each may wait for executors that do not answer. */
const AT_ONCE = 100;

export interface ErasuresParts extends ExecutorErasureParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly runner: EffectRunner;
  readonly bodies: Bodies;
  readonly sessionArchive: SessionArchive;
}

export class Erasures {
  readonly #parts: ErasuresParts;
  readonly #executors: ExecutorErasure;
  /** Deletes a session; set by session-commands.ts. */
  deleteSession: (owner: KeyOwner) => Promise<void> = async () => undefined;
  /** Resolved when the deletion is over, by the id of its record. */
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  constructor(parts: ErasuresParts) {
    this.#parts = parts;
    this.#executors = new ExecutorErasure(parts);
    parts.bodies.seals.whenErased = (owner) => this.whenErased(owner);
    parts.sessionArchive.whenErased = (owner) => this.whenErased(owner);
    void parts.loop.failed.then((error) => this.#fail(error));
  }

  /** These changes are durable. */
  changed(changes: readonly Change[]): void {
    for (const { kind, id, after } of changes) if (kind === 'erasure' && after) this.#run(id, after);
  }

  /** Everything up to now is durable. */
  sweep(): void {
    for (const [id, record] of this.#parts.engine.state.tables.erasure.entries()) this.#run(id, record);
  }

  /** Resolves when the texts of the session are erased; undefined where no deletion is under way. */
  whenErased({ tenant, session }: KeyOwner): Promise<void> | undefined {
    const { erasure } = this.#parts.engine.state.tables;
    if (erasure.size === 0) return undefined;
    const id = scoped(tenant, session);
    if (!erasure.get(id)) return undefined;
    const waiting = this.#waiting.get(id) ?? Promise.withResolvers<void>();
    // Nobody may wait for it when it fails.
    waiting.promise.catch(() => undefined);
    this.#waiting.set(id, waiting);
    return waiting.promise;
  }

  #run(id: string, { tenant, session, n, othersSince }: ErasureRecord): void {
    const { engine, runner, loop, bodies, sessionArchive } = this.#parts;
    const { erasure } = engine.state.tables;
    runner.run(
      `erase ${id}`,
      {
        isDue: () => erasure.get(id)?.n === n,
        attempt: async () => {
          await bodies.erase({ tenant, session });
          await sessionArchive.dropErased(tenant, session);
          if (othersSince !== undefined) await this.#deleteBegun({ tenant, session }, othersSince);
          await this.#executors.erase({ tenant, session });
          await loop.ask({ type: 'erased', id, n });
          return true;
        },
      },
      () => this.#ended(id),
    );
  }

  /** What was said in the session has been passed on to those that its runs have begun in the background. */
  async #deleteBegun(owner: KeyOwner, since: number): Promise<void> {
    const { tenant } = owner;
    const begun = await this.#parts.sessionArchive.begunBy(owner, since);
    for (let from = 0; from < begun.length; from += AT_ONCE) {
      const some = begun.slice(from, from + AT_ONCE);
      await Promise.all(some.map((session) => this.deleteSession({ tenant, session })));
    }
  }

  /** Goes on with a deletion of the same session that came meanwhile, if there is one. */
  #ended(id: string): void {
    const { engine, loop } = this.#parts;
    const next = engine.state.tables.erasure.get(id);
    if (next) {
      const again = (): void => this.#run(id, next);
      loop.durable(engine.state.seq).then(again, () => undefined);
      return;
    }
    this.#waiting.get(id)?.resolve();
    this.#waiting.delete(id);
  }

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
