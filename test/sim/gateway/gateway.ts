/** A gateway in the simulated world: the real one without its HTTP server, which can be killed at any instant. */
import { executionEnd, refusal } from '../../../src/backends/executor/answers.ts';
import type {
  Backend,
  BackendInfo,
  ExecutionEvent,
  ExecutionStatus,
  FollowEnd,
  Inspection,
  KillHow,
  KillReply,
  Offer,
  OfferReply,
} from '../../../src/core/ports/backend.ts';
import { GatewayCore } from '../../../src/daemons/gateway/core.ts';
import { createLogger } from '../../../src/kit/logger.ts';
import { OrchdError } from '../../../src/model/errors.ts';
import { jobOfToken } from '../../../src/model/records.ts';
import {
  type Commander,
  HASH_HEADER,
  REGISTRY_HEADER,
  type WorkerOutcome,
} from '../../../src/model/worker-wire.ts';
import { commanderHeaders } from '../../../src/wire/epochs.ts';
import type { SimDisk } from '../../fakes/sim-disk.ts';
import { SeededRandom, type World } from '../../fakes/world.ts';
import type { SimProvider } from './provider.ts';

export const SEAT = 'seat';
const FOLDER = '/gateway';
const quiet = createLogger({ write: () => undefined, now: () => 0 });

interface Life {
  alive: boolean;
  core: GatewayCore | undefined;
}

export class SimGateway {
  readonly disk: SimDisk;
  readonly #world: World;
  readonly #provider: SimProvider;
  #life: Life | undefined;
  crashes = 0;
  reachable = true;
  /** The registry that it had when it was last up. */
  registry = '';
  /** What it has told about the end of each request. */
  readonly #told = new Map<string, string>();
  /** It has told something else about an end than before. */
  contradiction: string | undefined;

  constructor(world: World, disk: SimDisk, provider: SimProvider) {
    this.#world = world;
    this.disk = disk;
    this.#provider = provider;
  }

  get core(): GatewayCore | undefined {
    return this.reachable ? this.#life?.core : undefined;
  }

  get world(): World {
    return this.#world;
  }

  boot(): void {
    const life: Life = { alive: true, core: undefined };
    this.#life = life;
    const env = {
      clock: this.#world.clock,
      timers: this.#world.timersFor(life),
      random: new SeededRandom(this.#world.random.int(2 ** 31)),
      disk: this.disk.for(life),
    };
    const options = { env, logger: quiet, folder: FOLDER, drivers: this.#provider.driver };
    GatewayCore.open(options).then(
      (core) => {
        if (!life.alive) return;
        life.core = core;
        this.registry = core.kept.memory.registry;
        core.follow({ seats: [SEAT_ORDER], reservation_ms: 100, timeout_ms: 60_000 });
        // A disk that fails ends the process.
        void core.kept.failed.then(() => life.alive && this.kill());
      },
      () => life.alive && this.kill(),
    );
  }

  kill(): void {
    if (!this.#life) return;
    this.crashes++;
    this.#world.note('kill gateway');
    this.#life.alive = false;
    this.#life = undefined;
  }

  /** Notes what it tells about a request: an end that was told once must not change. */
  tells(token: string, outcome: WorkerOutcome | undefined): void {
    const before = this.#told.get(token);
    const now = outcome && JSON.stringify(outcome);
    if (before !== undefined && before !== now)
      this.contradiction ??= `${token} had ended as ${before}, and is now ${now}`;
    if (now !== undefined) this.#told.set(token, now);
  }

  /** The end was collected: from now on it need not be known. */
  collected(token: string): void {
    this.#told.delete(token);
  }

  /** Boots again whatever happens, as the brain or a service manager would. */
  supervise(): void {
    const look = (): void => {
      if (!this.#life) this.boot();
      this.#world.after(this.#world.random.between(20, 300), look);
    };
    look();
  }
}

const SEAT_ORDER = {
  name: SEAT,
  driver: 'openai-chat' as const,
  url: 'http://127.0.0.1:1',
  slots: 1,
  models: { m: 'm' },
  keep: true,
  preempt: false,
};

/** The connection of one brain to the seat: requests and replies take time and get lost. */
export class SimSeat implements Backend {
  readonly #gateway: SimGateway;
  readonly #brain: { readonly alive: boolean };
  readonly #lose: () => number;

  constructor(gateway: SimGateway, brain: { readonly alive: boolean }, lose: () => number) {
    this.#gateway = gateway;
    this.#brain = brain;
    this.#lose = lose;
  }

  get info(): BackendInfo {
    const { registry } = this.#gateway;
    return {
      name: SEAT,
      kind: 'gateway',
      slots: 1,
      types: undefined,
      models: undefined,
      labels: {},
      paid: true,
      keepsResults: true,
      registry,
      ...(registry === '' && { outage: 'it has not answered yet' }),
    };
  }

  offer({ token, payloadText, registry, ask, ...who }: Offer): Promise<OfferReply> {
    const headers = {
      ...commanderHeaders(who),
      ...(registry !== undefined && { [REGISTRY_HEADER]: registry }),
      ...(ask.hash !== undefined && { [HASH_HEADER]: ask.hash }),
    };
    const payload = JSON.parse(payloadText) as string;
    const body = { backend: SEAT, payload, idempotency_token: token, job_id: jobOfToken(token) };
    return this.#send(async (core) => {
      try {
        await core.requests.submit(body, headers);
        return { is: 'accepted' };
      } catch (error) {
        if (!(error instanceof OrchdError)) throw error;
        const { retryAfterMs } = error.details;
        return refusal({ ...error.info(), ...(retryAfterMs !== undefined && { retryAfterMs }) });
      }
    });
  }

  inspect(tokens: readonly string[], who: Commander): Promise<Inspection> {
    const headers = commanderHeaders(who);
    return this.#send(async (core) => {
      const { requests, registry, remembered_since, opening_before } = await core.requests.active(headers);
      const known = new Map<string, ExecutionStatus>();
      const others = [];
      for (const { request_id: token, state, hash } of requests) {
        if (!tokens.includes(token)) {
          others.push({ token, isRunning: state === 'running' });
          continue;
        }
        const { outcome } = await core.requests.state(token, headers);
        this.#gateway.tells(token, outcome);
        const status: ExecutionStatus =
          state === 'running'
            ? { is: 'running' }
            : await executionEnd(outcome, this.#gateway.world.timersFor({ alive: true }), 0);
        known.set(token, hash === undefined ? status : { ...status, hash });
      }
      return { registry, rememberedSince: remembered_since, known, others, openingBefore: opening_before };
    });
  }

  async follow(
    token: string,
    _from: number,
    _on: (event: ExecutionEvent) => void,
    who: Commander,
    signal?: AbortSignal,
  ): Promise<FollowEnd> {
    const found = await this.#send((core) =>
      core.requests.readable(token, commanderHeaders(who)).then(
        (execution) => ({ execution, core }),
        () => undefined,
      ),
    );
    if (!found) return { is: 'lost' };
    const { execution, core } = found;
    while (!execution.outcome) {
      if (signal?.aborted || this.#gateway.core !== core) return { is: 'lost' };
      await this.#gateway.world.wait(5);
    }
    this.#gateway.tells(token, execution.outcome);
    return this.#send(() =>
      executionEnd(execution.outcome, this.#gateway.world.timersFor({ alive: true }), 0),
    );
  }

  kill(token: string, who: Commander, how: KillHow = 'end'): Promise<KillReply> {
    return this.#send(async (core) => {
      const reply = await core.requests.kill(token, how, commanderHeaders(who));
      const { is, outcome, hash, registry, remembered_since, opening_before } = reply;
      if (is === 'tombstoned')
        return {
          is,
          registry,
          rememberedSince: remembered_since,
          ...(opening_before && { openingBefore: opening_before }),
        };
      if (is !== 'ended') return { is };
      this.#gateway.tells(token, outcome);
      const end = await executionEnd(outcome, this.#gateway.world.timersFor({ alive: true }), 0);
      return hash === undefined ? end : { ...end, hash };
    });
  }

  ack(token: string, who: Commander): Promise<void> {
    return this.#send((core) => {
      this.#gateway.collected(token);
      return core.requests.acknowledge(token, commanderHeaders(who));
    });
  }

  /** There and back. A sender that dies on the way has still sent; a gateway that dies does not answer. */
  #send<T>(run: (core: GatewayCore) => Promise<T>): Promise<T> {
    const { world } = this.#gateway;
    const { random } = world;
    return new Promise((resolve, reject) => {
      let isOver = false;
      const settle = (then: () => void): void => {
        if (isOver) return;
        isOver = true;
        if (this.#brain.alive) then();
      };
      world.after(random.between(100, 400), () => settle(() => reject(new Error('no answer'))));
      if (random.chance(this.#lose())) return;
      const isAnswerLost = random.chance(this.#lose());
      world.after(random.between(0.1, 3), () => {
        const { core } = this.#gateway;
        if (!core) return;
        const answer = (then: () => void): void => {
          if (isAnswerLost || this.#gateway.core !== core) return;
          world.after(random.between(0.1, 3), () => settle(then));
        };
        run(core).then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => answer(() => reject(error)),
        );
      });
    });
  }
}
