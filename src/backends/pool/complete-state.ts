/**
 * Completes the state of a pool manager that says less than ours: without registries and without a version. The brain then
 * asks each ready worker for what it needs to know of it, and counts the changes of the state itself.
 */
import { checker } from '../../kit/check.ts';
import { stableHash } from '../../kit/hash.ts';
import type { PoolState, WorkerState } from '../../model/pool-wire.ts';
import { WorkerHealth } from '../../model/worker-wire.ts';
import { parseJsonBody } from '../../wire/json-body.ts';
import type { Outbound } from '../../wire/outbound.ts';
import type { IsAllowedUri } from './allowed-uris.ts';

export type CompleteState = PoolState & { readonly registry: string; readonly version: number };

/** What a worker says of itself. */
type WorkerFacts = Required<Pick<WorkerState, 'registry' | 'slots' | 'context_length'>>;

const HEALTH_TIMEOUT_MS = 1000;
const MAX_HEALTH_BYTES = 64 * 1024;

const checkHealth = checker(WorkerHealth);

/** One for each pool manager. */
export class StateCompletion {
  readonly #outbound: Outbound;
  readonly #isAllowed: IsAllowedUri;
  /** By the process of the worker, as its manager names it. */
  #facts = new Map<string, WorkerFacts>();
  #version = 0;
  #hash = '';

  constructor(outbound: Outbound, isAllowed: IsAllowedUri) {
    this.#outbound = outbound;
    this.#isAllowed = isAllowed;
  }

  /** A worker that does not answer stays without a registry, and cannot be used until a later state. */
  async complete(state: PoolState): Promise<CompleteState> {
    const { registry = state.pool_id, version } = state;
    if (version !== undefined && state.workers.every(isComplete)) return { ...state, registry, version };
    const workers = await Promise.all(state.workers.map((worker) => this.#completed(worker)));
    const whole = { ...state, workers, registry };
    this.#facts = new Map([...this.#facts].filter(([key]) => workers.some((each) => keyOf(each) === key)));
    const hash = stableHash(whole);
    if (hash !== this.#hash) this.#version++;
    this.#hash = hash;
    // A version of ours lies beside the one of the manager: either may change alone.
    return { ...whole, version: (version ?? 0) + this.#version };
  }

  async #completed(worker: WorkerState): Promise<WorkerState> {
    const { uri } = worker;
    if (isComplete(worker) || uri === undefined || !this.#isAllowed(uri)) return worker;
    const key = keyOf(worker);
    const facts = this.#facts.get(key) ?? (await this.#ask(uri, worker).catch(() => undefined));
    if (!facts) return worker;
    this.#facts.set(key, facts);
    return { ...facts, ...worker };
  }

  async #ask(uri: string, { token }: WorkerState): Promise<WorkerFacts | undefined> {
    const target = this.#outbound.to(uri);
    try {
      const { status, body } = await target.request({
        path: '/health',
        headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
        timeoutMs: HEALTH_TIMEOUT_MS,
        maxBytes: MAX_HEALTH_BYTES,
      });
      const { registry, slots, context_length } = checkHealth(parseJsonBody(body));
      return status === 200 ? { registry, slots, context_length } : undefined;
    } finally {
      target.close();
    }
  }
}

/** A worker that is not ready yet has nothing to say. */
const isComplete = ({ registry, status }: WorkerState): boolean =>
  registry !== undefined || (status !== 'ready' && status !== 'busy');

const keyOf = ({ id, uri, started_at }: WorkerState): string => `${id}\n${uri}\n${started_at}`;
