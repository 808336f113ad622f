/** What the fake gateway remembers of its requests: by owner and token, with their events. */
import type { WorkerOutcome } from '../../src/model/worker-wire.ts';

interface LoggedEvent {
  readonly n: number;
  readonly type: string;
  readonly text: string;
}

export class FakeRequest {
  readonly owner: string;
  readonly token: string;
  readonly jobId: string;
  readonly seat: string;
  readonly hash: string | undefined;
  readonly startedAt = Date.now();
  readonly events: LoggedEvent[] = [];
  readonly #followers = new Set<() => void>();
  outcome: WorkerOutcome | undefined;
  isAcknowledged = false;
  pieces = 0;

  constructor(facts: Pick<FakeRequest, 'owner' | 'token' | 'jobId' | 'seat' | 'hash'>) {
    this.owner = facts.owner;
    this.token = facts.token;
    this.jobId = facts.jobId;
    this.seat = facts.seat;
    this.hash = facts.hash;
    this.#append('started', { job_id: facts.jobId, started_at: this.startedAt });
  }

  get state(): 'running' | 'ended' {
    return this.outcome ? 'ended' : 'running';
  }

  say(text: string): void {
    // An event has a longest length.
    for (const t of text.match(/[\s\S]{1,10000}/gu) ?? [])
      if (!this.outcome) this.#append('token', { t, i: this.pieces++ });
  }

  end(outcome: WorkerOutcome): void {
    if (this.outcome) return;
    this.outcome = outcome;
    if (outcome.ok === true)
      this.#append('end', { tokens_out: this.pieces, decode_time_ms: 0, result: outcome.result });
    else if (outcome.ok === false) this.#append('error', outcome.error);
    else this.#append('error', { code: 'CANCELLED', message: 'cancelled', retriable: false });
  }

  /** Forgets what was said. */
  erase(): void {
    const error = { code: 'UNKNOWN_OUTCOME', message: 'its result is gone', retriable: false };
    this.outcome = { ok: false, error };
    this.isAcknowledged = true;
    this.events.length = 0;
    this.#append('error', error);
  }

  /** Calls `onNews` whenever there are more events; returns how to stop that. */
  follow(onNews: () => void): () => void {
    this.#followers.add(onNews);
    return () => this.#followers.delete(onNews);
  }

  #append(type: string, data: object): void {
    this.events.push({ n: this.events.length + 1, type, text: JSON.stringify(data) });
    for (const tell of [...this.#followers]) tell();
  }
}

export class GatewayMemory {
  readonly registry: string;
  readonly since = Date.now();
  readonly #known = new Map<string, FakeRequest | 'tombstone'>();

  constructor(registry: string) {
    this.registry = registry;
  }

  get requests(): FakeRequest[] {
    return [...this.#known.values()].filter((each) => each !== 'tombstone');
  }

  get running(): number {
    return this.requests.filter(({ outcome }) => !outcome).length;
  }

  get unacknowledged(): number {
    return this.requests.filter(({ outcome, isAcknowledged }) => outcome && !isAcknowledged).length;
  }

  find(owner: string, token: string): FakeRequest | 'tombstone' | undefined {
    return this.#known.get(`${owner} ${token}`);
  }

  add(request: FakeRequest): void {
    this.#known.set(`${request.owner} ${request.token}`, request);
  }

  bury(owner: string, token: string): void {
    this.#known.set(`${owner} ${token}`, 'tombstone');
  }
}
