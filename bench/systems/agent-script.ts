/**
 * What is said in the measured runs of agents, the same in every system: the model asks for two tools, then answers. Model
 * and tools answer at once, so that only the work of the runtime is left.
 */

export const INSTRUCTIONS =
  'You are the clerk of a shop. Look up what you need, then answer in one sentence.';
export const QUESTION =
  'Where is order 7, and when will it arrive at the address that the customer gave last week?';
export const ANSWER = 'Order 7 is on a lorry near Hamburg and will be delivered tomorrow morning.';

export interface ScriptedCall {
  readonly id: string;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The calls that the model asks for in its first answer. */
export const CALLS: readonly ScriptedCall[] = [
  { id: 'call_1', name: 'find_order', args: { number: 7 } },
  { id: 'call_2', name: 'find_parcel', args: { order: 7 } },
];

/** The result of either tool. */
export const TOOL_RESULT = JSON.stringify({
  order: 7,
  state: 'on its way',
  place: 'Hamburg',
  eta: '2026-12-01',
});

/** A system that runs the script. */
export interface RunSystem {
  /** Resolves when a run has ended and its end is durable. Throws for a run without the answer. */
  run(): Promise<void>;
  /** The number of syncs of this process so far, where they are counted. */
  readonly syncs?: () => number;
  /** The server processes that belong to the system. */
  readonly servers: readonly number[];
  close(): Promise<void>;
}
