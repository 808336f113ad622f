/** Consumers: processes that ask the brain for work. The brain alone remembers what each of them holds. */

/**
 * `live`: it is offered work. `draining`: it finishes what it holds, and gets nothing new. `silent`: its lease has ended;
 * a heartbeat brings it back as it was.
 */
export type ConsumerState = 'live' | 'draining' | 'silent';

/** The registration of a consumer. Its id is `<pool>/<name>`. */
export interface ConsumerRecord {
  readonly v: 1;
  readonly pool: string;
  readonly name: string;
  /** The secret that every request of this registration carries. */
  readonly token: string;
  /** Grows with every registration: a former process of the same name holds attempts under a lower one. */
  readonly fence: number;
  readonly slots: number;
  readonly types: readonly string[];
  readonly models: readonly string[] | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly paid: boolean;
  /** Where it hears of work; undefined: it asks by long poll. */
  readonly listens: 'redis' | undefined;
  /** The memory of a device that it needs for each job: it gets no job without a lease on one. */
  readonly gpuMemoryMb?: number | undefined;
  /** The pool whose devices it can use; undefined: those of the configuration, or else those of any pool. */
  readonly gpuPool?: string | undefined;
  /** It is silent when it has sent nothing for this long. */
  readonly ttlMs: number;
  readonly state: ConsumerState;
  /** Of a silent one: it was draining before, and gets nothing new when it is heard again. */
  readonly wasDraining?: true | undefined;
  readonly registeredAt: number;
  /** As of the last written heartbeat: not every heartbeat is written. For a silent one, when it fell silent. */
  readonly seenAt: number;
}

/** What a consumer declares when it registers. */
export type ConsumerDeclaration = Pick<
  ConsumerRecord,
  | 'pool'
  | 'name'
  | 'token'
  | 'slots'
  | 'types'
  | 'models'
  | 'labels'
  | 'paid'
  | 'listens'
  | 'gpuMemoryMb'
  | 'gpuPool'
  | 'ttlMs'
>;

/** The consumer that holds an attempt. */
export interface AttemptHolder {
  /** The id of the consumer's record. */
  readonly consumer: string;
  /** That of the registration under which it has claimed the attempt. */
  readonly fence: number;
  /** The number of its claim, by which a consumer that has lost the answer gets the same attempts again. */
  readonly claim: number;
}

/** A result came from a consumer that does not hold the attempt any more; kept for the audit. */
export interface FencedResult {
  readonly token: string;
  readonly consumer: string;
  readonly at: number;
}

export const CONSUMERS_KIND = 'consumers';

const PREFIX = `${CONSUMERS_KIND}/`;

export const consumerId = (pool: string, name: string): string => `${pool}/${name}`;

/** The consumers of a pool are one backend with the slots of them all. */
export const backendOfPool = (pool: string): string => PREFIX + pool;

export const isPoolOfConsumers = (backend: string): boolean => backend.startsWith(PREFIX);

export const poolOfBackend = (backend: string): string => backend.slice(PREFIX.length);
