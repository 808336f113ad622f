/** Conversations of several turns on seats that keep threads, played on an engine with a clock of its own. */

import type { StickyPolicy } from '../../src/core/settings.ts';
import type { Random } from '../../src/kit/env/env.ts';
import { IndexedHeap } from '../../src/kit/indexed-heap.ts';
import { EngineKit } from '../fakes/engine-kit.ts';

export interface ConversationOptions {
  readonly sticky: StickyPolicy;
  readonly seats: number;
  readonly conversations: number;
  readonly turns: number;
  /** The share of the seats' time that the turns take. */
  readonly load: number;
  readonly random: Random;
}

export interface ConversationReport {
  /** Turns after the first one that ran on the seat of the turn before, and all of these. */
  readonly hits: number;
  readonly later: number;
  /** The longest time that a turn waited while a seat was free, in mean service times of that moment. */
  readonly longestIdleWait: number;
}

const MEAN_SERVICE_MS = 1000;
const MEAN_PAUSE_MS = 4000;

interface Happening {
  readonly at: number;
  readonly run: () => void;
  pos: number;
}

const POSITION = {
  get: (each: Happening) => each.pos,
  set: (each: Happening, pos: number) => {
    each.pos = pos;
  },
};

export class Conversations {
  readonly #kit: EngineKit;
  readonly #options: ConversationOptions;
  readonly #ahead = new IndexedHeap<Happening>((a, b) => a.at < b.at, POSITION);
  /** The seat of each conversation's last turn. */
  readonly #seats = new Map<string, string>();
  /** Since when each queued turn waits while a seat is free. */
  readonly #idleSince = new Map<string, number>();
  readonly #running = new Set<string>();
  readonly #queued = new Set<string>();
  #hits = 0;
  #later = 0;
  #longest = 0;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#kit = new EngineKit({ sticky: options.sticky });
    for (let n = 0; n < options.seats; n++) this.#kit.backend(`seat-${n}`);
  }

  play(): ConversationReport {
    const { conversations, turns, seats, load } = this.#options;
    const betweenMs = (MEAN_SERVICE_MS * turns) / (seats * load);
    let at = this.#kit.now;
    for (let n = 0; n < conversations; n++) {
      at += this.#exponential(betweenMs);
      this.#plan(at, () => this.#ask(`c${n}`, 1));
    }
    for (let next = this.#ahead.peek(); next; next = this.#ahead.peek()) {
      this.#ahead.remove(next);
      this.#passTo(next.at);
      next.run();
      this.#look();
    }
    return { hits: this.#hits, later: this.#later, longestIdleWait: this.#longest };
  }

  /** Ticks on the way, where the engine wants to be woken. */
  #passTo(at: number): void {
    const kit = this.#kit;
    for (let wake = kit.engine.nextWake(); wake < at; wake = kit.engine.nextWake()) {
      kit.now = Math.max(kit.now, wake);
      kit.step({ type: 'tick' });
      this.#look();
    }
    kit.now = Math.max(kit.now, at);
  }

  #plan(at: number, run: () => void): void {
    this.#ahead.push({ at, run, pos: -1 });
  }

  #ask(conversation: string, turn: number): void {
    const id = `${conversation}.${turn}`;
    this.#queued.add(id);
    this.#kit.submit(id, { session_id: conversation, messages: 2 * turn - 1 });
  }

  /** Starts the work of turns that were claimed, and notes how long the others have waited beside a free seat. */
  #look(): void {
    for (const id of this.#queued) if (this.#kit.state(id) === 'claimed') this.#begin(id);
    const { fleet } = this.#kit.engine.queue;
    const isFree = [...fleet.backends.values()].some(({ free }) => free);
    const mean = [...fleet.lanes.values()][0]?.serviceMs ?? Number.POSITIVE_INFINITY;
    for (const id of this.#queued) {
      const since = this.#idleSince.get(id);
      if (since !== undefined) this.#longest = Math.max(this.#longest, (this.#kit.now - since) / mean);
      if (!isFree) this.#idleSince.delete(id);
      else if (since === undefined) this.#idleSince.set(id, this.#kit.now);
    }
  }

  #begin(id: string): void {
    this.#queued.delete(id);
    this.#idleSince.delete(id);
    const [conversation, turn] = id.split('.') as [string, string];
    const seat = this.#kit.job(id).job.backend as string;
    const before = this.#seats.get(conversation);
    if (before !== undefined) {
      this.#later++;
      if (before === seat) this.#hits++;
    }
    this.#seats.set(conversation, seat);
    this.#kit.accept(id);
    this.#running.add(id);
    this.#plan(this.#kit.now + this.#exponential(MEAN_SERVICE_MS), () =>
      this.#end(id, conversation, Number(turn)),
    );
  }

  #end(id: string, conversation: string, turn: number): void {
    this.#running.delete(id);
    const thread = {
      id: `${this.#seats.get(conversation)}/${conversation}`,
      messages: 2 * turn,
      hash: `h${turn}`,
    };
    this.#kit.end(id, { ok: true, result: '"said"', thread });
    if (turn === this.#options.turns) return;
    this.#plan(this.#kit.now + this.#exponential(MEAN_PAUSE_MS), () => this.#ask(conversation, turn + 1));
  }

  #exponential(mean: number): number {
    return -mean * Math.log(1 - this.#options.random.next());
  }
}
