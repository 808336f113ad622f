/** The actor of a brain in a spool. It is opened when it is first needed, and again when it was taken for dead. */
import { join } from 'node:path';
import { Actor } from '../../spool/actor.ts';
import { lockPath, OWNER_FILE } from '../../spool/layout.ts';
import { acquireLock, breakLock, releaseLock } from '../../spool/lock.ts';
import { judgeOwner, readEvidence } from '../../spool/owner.ts';
import { settleOwn } from '../../spool/repair.ts';
import type { Spool } from '../../spool/spool.ts';

export class BrainActor {
  readonly #spool: Spool;
  #opening: Promise<Actor> | undefined;
  /** How many jobs are being changed. */
  #changes = 0;
  /** A change has failed, and may have left its job in the folder of the actor. */
  #hasFailed = false;
  #settling: Promise<void> | undefined;

  constructor(spool: Spool) {
    this.#spool = spool;
  }

  /** Each use is a heartbeat; between two of them the actor has nothing in hand. */
  async use(): Promise<Actor> {
    const actor = await this.#opened();
    if ((await actor.touch()) === 'touched') return actor;
    this.#opening = undefined;
    return this.#opened();
  }

  /** Runs what takes a job to change it. */
  async change<T>(act: (actor: Actor) => Promise<T>): Promise<T> {
    while (this.#settling !== undefined) await this.#settling;
    this.#changes++;
    try {
      return await act(await this.use());
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    } finally {
      this.#changes--;
    }
  }

  /** Brings on what the disk has kept this actor from putting (R6 of repair.ts). */
  async settle(): Promise<void> {
    if (!this.#hasFailed || this.#changes > 0) return;
    this.#settling ??= this.use()
      .then(settleOwn)
      .finally(() => {
        this.#settling = undefined;
      });
    await this.#settling;
  }

  async close(): Promise<void> {
    await (await this.#opening?.catch(() => undefined))?.close();
  }

  /**
   * Runs `act` while nobody else can claim, return or place the job of this name; undefined where somebody else has its
   * lock. A lock whose process is dead is broken, so that the next call may get it.
   */
  async withLock<T>(name: string, act: (actor: Actor) => Promise<T>): Promise<T | undefined> {
    const actor = await this.use();
    const lock = await acquireLock(actor, name);
    if (!lock) {
      await this.#breakDead(actor, name);
      return undefined;
    }
    try {
      return await act(actor);
    } finally {
      await releaseLock(actor, lock);
    }
  }

  async #breakDead(actor: Actor, name: string): Promise<void> {
    const { env, paths, host } = this.#spool;
    const path = lockPath(paths, name);
    const stat = await env.disk.lstat(path);
    const evidence = await readEvidence(env.disk, path, join(path, OWNER_FILE));
    if (!stat || !evidence || judgeOwner(evidence, host) !== 'dead') return;
    await breakLock(actor, { job: name, nonce: evidence.owner?.nonce, identity: stat.identity });
  }

  #opened(): Promise<Actor> {
    if (!this.#opening) {
      const opening = Actor.open(this.#spool, 'brain');
      // A failure is not kept: a full disk may have space at the next call.
      opening.catch(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
      this.#opening = opening;
    }
    return this.#opening;
  }
}
