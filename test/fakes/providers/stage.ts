/** What a test can make a fake provider do: misbehave, stop at a point until it is released, expire ids. */

/**
 * What the provider does with a generation instead of running it well. Those up to `redirect` accept nothing and bill
 * nothing; all others have billed.
 */
export const FAULTS = [
  /** 429, without a word about the wait; with `headers` any spelling of a wait can be tried. */
  'rate_limited',
  'quota',
  /** Anthropic's account without credit: a 400. */
  'no_credit',
  /** 529 of Anthropic, 503 of OpenAI and Gemini, each in the provider's form. */
  'overloaded',
  /** 503 of a proxy, which is no JSON. */
  'proxy_503',
  'server_error',
  'bad_request',
  'too_long',
  'not_found',
  /** A 400 whose message quotes the key. */
  'quotes_key',
  /** A login page with status 200. */
  'html',
  /** To the host in `location`. */
  'redirect',
  /** An error as the first event of a stream. */
  'error_first',
  /** An error after the first output. */
  'error_later',
  'cut_mid',
  /** The stream ends properly after the first output, without the rest. */
  'end_mid',
  'cut_before_usage',
  'cut_after_usage',
  'no_usage',
  'usage_twice',
  'doubled',
  /** An event that is no JSON after the first output. */
  'garbage',
  'disordered',
  /** 502 of a proxy, after the provider has accepted. */
  'bad_gateway',
  /** The connection ends before the head of the answer. */
  'drop',
  /** No answer at all. */
  'hang',
  /** Nothing more after the first output. */
  'hang_mid',
  /** The generation itself fails. */
  'fails',
  /** The prompt is blocked for its content: an answer of Gemini without candidates. */
  'blocked',
  /** A batch that is ended before its request was begun. */
  'expires',
  /** The results of a batch are at the host in `location`. */
  'foreign_results',
] as const;
export type FaultName = (typeof FAULTS)[number];

export interface Fault {
  readonly name: FaultName;
  readonly headers?: Readonly<Record<string, string>>;
  readonly location?: string;
}

/**
 * Where a generation can be held: after it was billed and before the head of the answer, after the head, after the
 * first event, and before the last one.
 */
export const HOLD_POINTS = ['received', 'after-head', 'first-event', 'before-end'] as const;
export type HoldPoint = (typeof HOLD_POINTS)[number];

export class Stage {
  /** The faults of the next generations; those after them run well. */
  readonly faults: Fault[] = [];
  /** The statuses with which the next reads are answered. */
  readonly readFaults: number[] = [];
  /** Ids that the provider does not know any more. */
  readonly expired = new Set<string>();
  /** Lists stored answers without looking at the filter. */
  ignoresFilter = false;
  readonly #held = new Set<HoldPoint>();
  readonly #waiting = new Map<HoldPoint, Set<() => void>>(HOLD_POINTS.map((point) => [point, new Set()]));
  readonly #watchers = new Set<() => void>();

  fail(name: FaultName, more: Omit<Fault, 'name'> = {}): void {
    this.faults.push({ name, ...more });
  }

  hold(point: HoldPoint): void {
    this.#held.add(point);
  }

  /** Lets all generations at a point go on, and holds no more there. */
  release(point: HoldPoint): void {
    this.#held.delete(point);
    for (const resume of this.#waiting.get(point) ?? []) resume();
  }

  /** How many generations are held at each point. */
  get waiting(): Record<HoldPoint, number> {
    return Object.fromEntries([...this.#waiting].map(([point, held]) => [point, held.size])) as never;
  }

  /** Waits while the point is held, or until `over`. */
  async at(point: HoldPoint, over?: Promise<unknown>): Promise<void> {
    if (!this.#held.has(point)) return;
    const held = this.#waiting.get(point) as Set<() => void>;
    const { promise, resolve } = Promise.withResolvers<void>();
    held.add(resolve);
    for (const look of this.#watchers) look();
    await Promise.race([promise, over ?? promise]);
    held.delete(resolve);
  }

  /** Waits until a number of generations is held at a point. */
  async reached(point: HoldPoint, count = 1): Promise<void> {
    while (this.waiting[point] < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#watchers.add(resolve);
      await promise;
      this.#watchers.delete(resolve);
    }
  }
}
