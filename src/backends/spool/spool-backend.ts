/**
 * A backend whose executor is a spool: jobs are folders, and any agents run them. Everything that is known of an
 * execution is in its folder, so that brains and agents may die at any instant (decision 37).
 */
import {
  type Backend,
  type BackendInfo,
  type ExecutionEvent,
  type ExecutionStatus,
  type FollowEnd,
  type Inspection,
  isMeantFor,
  isOtherBody,
  type KillHow,
  type KillReply,
  type Offer,
  type OfferReply,
  type OtherExecution,
} from '../../core/ports/backend.ts';
import { errorInfo, OrchdError } from '../../model/errors.ts';
import type { Commander } from '../../model/worker-wire.ts';
import { readLifecycle } from '../../spool/job-folder.ts';
import { jobsNamed, type LocatedJob, locateJobs } from '../../spool/locate.ts';
import { killWaiting, orderKill } from '../../spool/retry.ts';
import type { SpoolExecutions } from './executions.ts';
import { followJob } from './follow.ts';
import {
  type BrainLifecycle,
  endOf,
  isEndPlace,
  type NamedToken,
  namedToken,
  namePrefix,
  readTokenState,
  type TokenState,
  withHash,
} from './token-state.ts';

const KILLED_BY_BRAIN = 'killed by its brain';

export class SpoolBackend implements Backend {
  readonly info: BackendInfo;
  readonly #open: () => Promise<SpoolExecutions>;
  #opened: SpoolExecutions | undefined;

  /** `open` rejects while the spool cannot be used: then a call has no answer. */
  constructor(info: BackendInfo, open: () => Promise<SpoolExecutions>) {
    this.info = info;
    this.#open = open;
  }

  async offer(offer: Offer): Promise<OfferReply> {
    await this.#ready();
    const { openings, registry } = this.#executions;
    if (await openings.isFenced(offer)) return { is: 'fenced' };
    if (!isMeantFor(registry, offer)) return { is: 'busy' };
    const named = namedToken(offer.owner, offer.token);
    const { offers } = this.#executions;
    let reply = offers.get(named.name);
    if (!reply) {
      reply = this.#executions
        .untilKnown(named, () => this.#tryToOffer(named, offer))
        .finally(() => offers.delete(named.name));
      offers.set(named.name, reply);
    }
    return reply;
  }

  async inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    await this.#ready();
    const { openings, registry } = this.#executions;
    if (await openings.isFenced(who)) throw new OrchdError('FENCED');
    this.#executions.ended.noteOwner(who.owner);
    const named = tokens.map((token) => namedToken(who.owner, token));
    const known = new Map<string, ExecutionStatus>();
    for (const [token, state] of await this.#states(named)) {
      const status = await this.#statusOf(state);
      if (status) known.set(token, status);
    }
    const others = await this.#others(who.owner, new Set(named.map(({ name }) => name)));
    return { registry, rememberedSince: 0, known, others, ...openings.openingBefore(who) };
  }

  async follow(
    token: string,
    from: number,
    on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    await this.#ready();
    const { env, spool, stopSignal } = this.#executions;
    const named = namedToken(who.owner, token);
    const stop = signal ? AbortSignal.any([signal, stopSignal]) : stopSignal;
    const look = (seen: LocatedJob | undefined): Promise<TokenState> => this.#executions.look(named, seen);
    try {
      return await followJob({ env, spool, look }, from, on, stop);
    } catch (error) {
      if (stopSignal.aborted) return { is: 'lost' };
      throw error;
    }
  }

  async kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    await this.#ready();
    if (await this.#executions.openings.isFenced(who)) return { is: 'fenced' };
    const named = namedToken(who.owner, token);
    return this.#executions.untilKnown(named, () => this.#tryToKill(named, who, how));
  }

  async ack(token: string, who: Commander): Promise<void> {
    const named = await this.#endedToken(token, who);
    if (named) this.#executions.ended.acknowledged(named.name);
  }

  async erase(token: string, who: Commander): Promise<void> {
    const named = await this.#endedToken(token, who);
    if (named) await this.#executions.ended.erase(named.state.job);
  }

  /** Every call begins with this. */
  async #ready(): Promise<void> {
    this.#opened = await this.#open();
  }

  get #executions(): SpoolExecutions {
    return this.#opened as SpoolExecutions;
  }

  /** Undefined where it has not ended, or the brain is fenced. */
  async #endedToken(token: string, who: Commander) {
    await this.#ready();
    if (await this.#executions.openings.isFenced(who)) return undefined;
    const named = namedToken(who.owner, token);
    const state = await this.#executions.find(named);
    return state.is === 'ended' ? { name: named.name, state } : undefined;
  }

  async #tryToOffer(named: NamedToken, offer: Offer): Promise<OfferReply | undefined> {
    const state = await this.#executions.find(named);
    if (state.is === 'tombstone') return refused('the token was withdrawn');
    if (state.is !== 'absent')
      return isOtherBody(state.lifecycle.hash, offer.ask.hash) ? { is: 'conflict' } : { is: 'accepted' };
    const { types } = this.info;
    const { type } = offer.ask.spec;
    if (types && !types.includes(type)) return refused(`this backend runs no jobs of type "${type}"`);
    const { maxPromptBytes } = this.#executions.spool.settings;
    if (Buffer.byteLength(offer.payloadText) > maxPromptBytes)
      return {
        is: 'refused',
        error: errorInfo('TOO_LARGE', `the payload has more than ${maxPromptBytes} bytes`),
      };
    if (!(await this.#executions.slots.take(named.name, this.info.slots))) return { is: 'busy' };
    const placed = await this.#executions.placeJob(named, offer);
    return placed === 'placed' ? { is: 'accepted' } : placed && { is: placed };
  }

  async #tryToKill(named: NamedToken, who: Commander, how: KillHow): Promise<KillReply | undefined> {
    const { spool, actor, registry, openings } = this.#executions;
    const state = await this.#executions.find(named);
    switch (state.is) {
      case 'absent': {
        const placed = await this.#executions.placeTombstone(named, who);
        // The next look finds the tombstone.
        return placed === 'fenced' ? { is: placed } : undefined;
      }
      case 'tombstone':
        return { is: 'tombstoned', registry, rememberedSince: 0, ...openings.openingBefore(who) };
      case 'ended':
        return withHash(await endOf(spool, state), state.lifecycle);
      case 'waiting':
        if (how === 'bury') return { is: 'running' };
        await actor.change((brain) => killWaiting(brain, 'incoming', named.name, KILLED_BY_BRAIN));
        return undefined;
      case 'running': {
        if (how === 'bury') return { is: 'running' };
        const { agent } = state.job;
        // Somebody is moving a job whose agent is dead.
        if (agent === undefined) return { is: 'stopping' };
        const outcome = await orderKill(await actor.use(), agent, named.name);
        return outcome === 'gone' ? undefined : { is: 'stopping' };
      }
    }
  }

  /** The states of many tokens; the folders of agents are listed once for all of them. */
  async #states(named: readonly NamedToken[]): Promise<Map<string, TokenState>> {
    const { spool } = this.#executions;
    const located = await locateJobs(
      spool,
      named.map(({ name }) => name),
    );
    const states = new Map<string, TokenState>();
    for (const each of named) {
      const job = located.get(each.name);
      const state = job && (await readTokenState(spool, each, job));
      states.set(each.token, state ?? (await this.#executions.look(each)));
    }
    return states;
  }

  async #statusOf(state: TokenState): Promise<ExecutionStatus | undefined> {
    if (state.is === 'absent' || state.is === 'tombstone') return undefined;
    if (state.is !== 'ended') {
      this.#executions.slots.note(state.job.name);
      return withHash({ is: 'running' } as const, state.lifecycle);
    }
    return withHash(await endOf(this.#executions.spool, state), state.lifecycle);
  }

  /** The jobs of this brain that it was not asked about and has not acknowledged. */
  async #others(owner: string, asked: ReadonlySet<string>): Promise<OtherExecution[]> {
    const { spool, ended } = this.#executions;
    const others = new Map<string, OtherExecution>();
    for await (const job of jobsNamed(spool, namePrefix(owner))) {
      if (asked.has(job.name) || ended.isAcknowledged(job.name)) continue;
      const read = await readLifecycle(spool, job.folder);
      const { token, tombstone } = (read.is === 'read' ? read.lifecycle : {}) as Partial<BrainLifecycle>;
      if (token === undefined || tombstone) continue;
      others.set(job.name, { token, isRunning: !isEndPlace(job.place) });
    }
    return [...others.values()];
  }
}

const refused = (message: string): OfferReply => ({
  is: 'refused',
  error: errorInfo('WORKER_NOT_FOUND', message),
});
