/**
 * The executions of brains in one spool: what all backend objects for it share while agents come and go.
 *
 * X1  A token is placed, as a job or as a tombstone, only with the lock of its name and when it is nowhere in the spool.
 *     Agents hold that lock for as long as they have the job, so that a job on its way is not overlooked.
 * X2  The fence is looked at again with that lock: a brain that was stopped before it places a token, and goes on after a
 *     newer one has taken over, places nothing.
 */
import { join } from 'node:path';
import type { Offer, OfferReply } from '../../core/ports/backend.ts';
import { diskErrorCode, type Env } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { type LocatedJob, locateJobs } from '../../spool/locate.ts';
import { type Spool, spoolId } from '../../spool/spool.ts';
import { type NewJobFolder, type NewPlace, placeNewJob } from '../../spool/submit.ts';
import { OpeningFiles } from '../opening-files.ts';
import { BrainActor } from './brain-actor.ts';
import { EndedFolders } from './ended-folders.ts';
import { type BrainLifecycle, findToken, type NamedToken, type TokenState } from './token-state.ts';
import { UsedSlots } from './used-slots.ts';

/** The folder of a spool for the openings of brains. */
const BRAINS_FOLDER = 'brains';
/** The pause before a job that somebody is moving, or whose lock somebody has, is looked for again, and how often. */
const AGAIN_MS = 20;
const MAX_TRIES = 100;
/** An ended job is moved by a person's kill and by an erasure; one look more finds it between two moves. */
const LOOKS_FOR_ABSENT = 3;

export interface ExecutionsOptions {
  readonly env: Env;
  readonly spool: Spool;
  readonly keepAckedMs: number;
}

export class SpoolExecutions {
  readonly env: Env;
  readonly spool: Spool;
  readonly openings: OpeningFiles;
  readonly actor: BrainActor;
  readonly ended: EndedFolders;
  readonly slots: UsedSlots;
  /** Offers that are under way, by the name of the job. */
  readonly offers = new Map<string, Promise<OfferReply>>();
  readonly #stop = new AbortController();

  /** The id of the spool. */
  readonly registry: string;

  private constructor({ env, spool, keepAckedMs }: ExecutionsOptions, registry: string) {
    this.env = env;
    this.spool = spool;
    this.registry = registry;
    this.openings = new OpeningFiles(env.disk, join(spool.paths.root, BRAINS_FOLDER));
    this.actor = new BrainActor(spool);
    this.slots = new UsedSlots(spool, (name) => this.offers.has(name));
    this.ended = new EndedFolders({ clock: env.clock, spool, actor: this.actor, keepAckedMs });
  }

  static async open(options: ExecutionsOptions): Promise<SpoolExecutions> {
    const { spool } = options;
    const { disk } = spool.env;
    await disk.makeFolder(join(spool.paths.root, BRAINS_FOLDER));
    await disk.syncFolder(spool.paths.root);
    return new SpoolExecutions(options, await spoolId(spool));
  }

  /** Aborted when the brain stops. */
  get stopSignal(): AbortSignal {
    return this.#stop.signal;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.actor.close();
  }

  /** The state of a token. Whether it is certainly nowhere is found out when it is placed. */
  find(named: NamedToken): Promise<TokenState> {
    return this.untilKnown(named, () => findToken(this.spool, named));
  }

  /** Like `find`, and `absent` is certain. `lastSeen` is where the job was the last time. */
  look(named: NamedToken, lastSeen?: LocatedJob): Promise<TokenState> {
    let hint = lastSeen;
    return this.untilKnown(named, async () => {
      const state = await findToken(this.spool, named, hint);
      hint = undefined;
      if (state?.is !== 'absent') return state;
      return this.#ifAbsent(named, async () => state);
    });
  }

  /** Repeats what another process has come in between of, until it gives an answer. */
  async untilKnown<T>({ token }: NamedToken, attempt: () => Promise<T | undefined>): Promise<T> {
    const { env, stopSignal } = this;
    for (let tries = 0; tries < MAX_TRIES && !stopSignal.aborted; tries++) {
      const answer = await attempt();
      if (answer !== undefined) return answer;
      await this.actor.settle();
      if (tries > 0) await pause(env.timers, AGAIN_MS, stopSignal);
    }
    throw new OrchdError('WORKER_BUSY', `the job of ${token} keeps changing in the spool`);
  }

  /** Puts the job of an offer into the spool; undefined where the token is there already, or somebody has its lock. */
  placeJob(named: NamedToken, offer: Offer): Promise<'placed' | 'fenced' | undefined> {
    const { ask, token, payloadText } = offer;
    const lifecycle: Partial<BrainLifecycle> = {
      token,
      hash: ask.hash,
      job_id: ask.id,
      type: ask.spec.type,
      model: ask.spec.model,
      offered_at: this.env.clock.now(),
      max_retries: 0,
      ...(ask.correlationId !== undefined && { correlation_id: ask.correlationId }),
    };
    return this.#place(named, offer, { promptText: payloadText, lifecycle }, 'incoming');
  }

  /** Makes sure that a token which is nowhere in the spool never runs. */
  placeTombstone(named: NamedToken, who: Commander): Promise<'placed' | 'fenced' | undefined> {
    const { token } = named;
    const lifecycle = { token, tombstone: true, max_retries: 0 };
    return this.#place(named, who, { promptText: 'null', lifecycle }, 'killed');
  }

  /** X1 and X2. */
  #place(
    named: NamedToken,
    who: Commander,
    files: Omit<NewJobFolder, 'name'>,
    place: NewPlace,
  ): Promise<'placed' | 'fenced' | undefined> {
    return this.#ifAbsent(named, async (actor) => {
      if (await this.openings.isFenced(who)) return 'fenced';
      await placeNewJob(actor, { name: named.name, ...files }, place);
      return 'placed';
    });
  }

  async #ifAbsent<T>(
    { name }: NamedToken,
    act: (actor: Awaited<ReturnType<BrainActor['use']>>) => Promise<T>,
  ): Promise<T | undefined> {
    try {
      return await this.actor.withLock(name, async (actor) => {
        for (let looks = 0; looks < LOOKS_FOR_ABSENT; looks++)
          if ((await locateJobs(this.spool, [name])).size > 0) return undefined;
        return act(actor);
      });
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'JOB_CONFLICT') return undefined;
      // The actor was taken for dead in between; the next call opens another one.
      if (diskErrorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  }
}
