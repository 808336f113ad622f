/**
 * Follows one upstream: asks it for its models at intervals, at once after a failed call, and less and less often while
 * it does not answer. A look that fails keeps the models that were known: the upstream may only be restarting.
 */
import { type BackoffPolicy, backoffMs } from '../../kit/backoff.ts';
import type { Cancel, Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import { MAX_UPSTREAM_MODELS, MAX_UPSTREAM_SLOTS } from '../../model/upstream-limits.ts';
import type { UpstreamOrder, UpstreamState } from '../../model/upstream-wire.ts';
import { Outbound, type Target } from '../../wire/outbound.ts';
import { type OpenAiServer, openAiHeaders } from '../worker/openai-calls.ts';
import { type ListedModel, listModels, noAnswer } from './model-list.ts';
import { OfferedNames } from './offered-names.ts';
import { FactReader } from './server-facts.ts';

/**
 * The default number of jobs at a time, for an upstream that does not say it. A server that runs fewer at a time queues
 * the others itself, for a moment and without regard to priority; more would leave a batching server half idle. So this
 * is a small number that keeps a common server busy.
 */
export const DEFAULT_SLOTS = 4;

const JITTER = 0.2;
const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 15_000;
/** Failed calls are a reason for a look ten times as often at most: jobs that a server refuses may come by the thousand. */
const SUSPECT_SHARE = 0.1;
/** A server that computes may be slow to list its models: one look that takes too long proves nothing. */
const SLOW_LOOKS = 2;

export interface WatchOptions {
  readonly env: Env;
  /** Called after every change of the state. */
  readonly onChange: () => void;
  /** Requests to the upstream at a time. */
  readonly maxStreams: number;
}

type WatchState = Pick<UpstreamState, 'status' | 'problem' | 'slots' | 'models' | 'former'>;

/** The upstream of one order, with its connections. */
interface Connection {
  readonly order: UpstreamOrder;
  readonly names: OfferedNames;
  readonly headers: Readonly<Record<string, string>>;
  target: Target;
  facts: FactReader;
}

export class UpstreamWatch {
  readonly #options: WatchOptions;
  readonly #outbound: Outbound;
  readonly #stop = new AbortController();
  #connection: Connection | undefined;
  #state: WatchState = { status: 'new', slots: DEFAULT_SLOTS, models: [], former: [] };
  /** When the last look began, by the monotonic clock. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #slowLooks = 0;
  #cancelNext: Cancel = () => undefined;
  #looking: Promise<void> | undefined;
  /** Another look was asked for while one was under way. */
  #lookAgain = false;
  /** A call has failed while a look was under way. */
  #isSuspect = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#outbound = new Outbound({
      timers: options.env.timers,
      limits: { maxStreams: options.maxStreams, maxCalls: options.maxStreams },
    });
  }

  get state(): WatchState {
    return this.#state;
  }

  /** Follows the upstream of this order from now on. */
  follow(order: UpstreamOrder): void {
    const before = this.#connection;
    if (before && JSON.stringify(before.order) === JSON.stringify(order)) return this.look();
    before?.target.retire();
    const headers = { ...openAiHeaders(order.key), connection: 'close' };
    const target = this.#outbound.to(order.url);
    const names = new OfferedNames(order);
    this.#connection = { order, names, headers, target, facts: new FactReader(target, headers) };
    this.#failures = 0;
    // Those of another address are not its models.
    const models = before?.order.url === order.url ? this.#state.models : [];
    const { slots, former } = this.#state;
    this.#change({ status: 'new', slots, models, former });
    this.look();
  }

  /** The server for a call that names this model. */
  serverOf(model: string | undefined): OpenAiServer {
    const connection = this.#connection;
    if (!connection) throw new OrchdError('WORKER_BUSY', 'the upstream is not known yet');
    if (model === undefined)
      throw new OrchdError('INVALID_PARAMS', 'the job names no model', { field: 'model' });
    const { target, headers, names } = connection;
    return { target, headers, model: names.theirs(model) };
  }

  /** A call has failed: the upstream may be restarting, or have dropped the model. Looks soon. */
  suspect(): void {
    const { clock, timers } = this.#options.env;
    if (this.#looking !== undefined) {
      this.#isSuspect = true;
      return;
    }
    const { poll_ms: pollMs = 0 } = this.#connection?.order ?? {};
    const waitMs = this.#lookedAt + pollMs * SUSPECT_SHARE - clock.monotonic();
    if (waitMs <= 0) return this.look();
    this.#cancelNext();
    this.#cancelNext = timers.after(waitMs, () => this.look());
  }

  /** Looks at once, or once more after the look that is under way. */
  look(): void {
    if (this.#stop.signal.aborted) return;
    if (this.#looking !== undefined) {
      this.#lookAgain = true;
      return;
    }
    this.#cancelNext();
    this.#lookedAt = this.#options.env.clock.monotonic();
    this.#looking = this.#look().finally(() => {
      this.#looking = undefined;
      const [again, isSuspect] = [this.#lookAgain, this.#isSuspect];
      this.#lookAgain = false;
      this.#isSuspect = false;
      if (again) this.look();
      else if (isSuspect) this.suspect();
      else this.#scheduleNext();
    });
  }

  /** A call did not reach the upstream: it gets no more until a look has found it again. */
  unreachable(error: OrchdError): void {
    if (this.#connection) this.#setAway(noAnswer(this.#connection.order.url, error));
    this.look();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#cancelNext();
    this.#outbound.close();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const connection = this.#connection;
    if (!connection) return;
    const { signal } = this.#stop;
    try {
      const listed = await listModels(connection.target, connection.order.url, connection.headers, signal);
      const facts = await connection.facts.read(listed, signal);
      if (this.#connection !== connection || signal.aborted) return;
      this.#found(connection, listed, facts);
    } catch (error) {
      if (this.#connection !== connection || signal.aborted) return;
      this.#renewTarget(connection);
      if (isSlow(error) && this.#state.status === 'up' && ++this.#slowLooks < SLOW_LOOKS) return;
      this.#failures++;
      this.#setAway(error as OrchdError);
    }
  }

  #found(
    { order, names }: Connection,
    listed: readonly ListedModel[],
    { contexts, slots }: Awaited<ReturnType<FactReader['read']>>,
  ): void {
    this.#failures = 0;
    this.#slowLooks = 0;
    const models = names.offered(listed).map(({ name, id }) => {
      const length = contexts.get(id);
      return { id: name, ...(length !== undefined && { context_length: length }) };
    });
    this.#change({
      status: 'up',
      slots: Math.min(order.slots ?? slots ?? DEFAULT_SLOTS, MAX_UPSTREAM_SLOTS),
      models,
      former: formerOf(this.#state, new Set(models.map(({ id }) => id))),
    });
  }

  #setAway(error: OrchdError): void {
    const { code, message } = error instanceof OrchdError ? error : new OrchdError('INTERNAL');
    this.#change({ ...this.#state, status: 'away', problem: { code, message } });
  }

  /** The name may stand for another address by now; the next look resolves it again, and asks what kind of server it is. */
  #renewTarget(connection: Connection): void {
    connection.target.retire();
    connection.target = this.#outbound.to(connection.order.url);
    connection.facts = new FactReader(connection.target, connection.headers);
  }

  #scheduleNext(): void {
    const { env } = this.#options;
    const { poll_ms: pollMs = 1000 } = this.#connection?.order ?? {};
    if (this.#stop.signal.aborted || !this.#connection) return;
    const policy: BackoffPolicy = {
      baseDelayMs: Math.min(FIRST_RETRY_MS, pollMs),
      maxDelayMs: Math.min(pollMs, MAX_RETRY_MS),
      jitter: JITTER,
    };
    const waitMs =
      this.#failures > 0
        ? backoffMs(policy, this.#failures, env.random.next())
        : Math.round(pollMs * (1 - JITTER * env.random.next()));
    this.#cancelNext = env.timers.after(waitMs, () => this.look());
  }

  #change(state: WatchState): void {
    const isSame = JSON.stringify(state) === JSON.stringify(this.#state);
    this.#state = state;
    if (!isSame) this.#options.onChange();
  }
}

const isSlow = (error: unknown): boolean => error instanceof OrchdError && error.details.reason === 'timeout';

/** The models that were offered before and are not any more, the oldest dropped beyond a bound. */
function formerOf({ models, former }: WatchState, offered: ReadonlySet<string>): string[] {
  const names = new Set([...former, ...models.map(({ id }) => id)]);
  return [...names].filter((name) => !offered.has(name)).slice(-MAX_UPSTREAM_MODELS);
}
