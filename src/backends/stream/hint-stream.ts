/**
 * A stream of hints, as the brain keeps it: the jobs of one pool, or the worker pools that a program outside is to start.
 * The records say what waits, and the stream is made to agree with them.
 *
 * P1  `entries` holds what is known to be in the stream. It is forgotten with each new connection, whose server may have
 *     lost the end of the stream or all of it, and found again by reading the stream.
 * P2  An entry goes when what it tells of is over, or when another entry for the same takes its place: never because of
 *     its age alone.
 * P3  The work of one `repair` is bounded, whatever others have put into the stream.
 */
import { crashpoint } from '../../kit/crashpoint.ts';
import { type Command, type Reply, transaction } from './client.ts';
import type { RedisConnection } from './connection.ts';
import { type Entry, endingOf, entriesIn, type Hint, type HintForm, unusable } from './entry.ts';
import { compareIds, groupIn, isPassed, pendingCommands } from './group.ts';
import { BRAIN, type StreamPlace } from './names.ts';
import { codeOf } from './server-check.ts';

/** Commands of one kind in a batch. */
const BATCH = 256;
/** Hints that wait to be published; what is beyond that is published by a later repair. */
const MAX_ADDING = 10_000;
const PAGE = 100;
/** Entries that one repair reads. */
const MAX_READ = 2000;
/** Repairs between two that read the stream although its length is right. */
const READ_EVERY = 30;
/** An empty stream for which no job waits is looked at in one repair of so many. */
const QUIET_EVERY = 5;
/** Entries that one repair asks about one by one. */
const MAX_ASKED = 100;

interface Scan {
  from: string;
  /** The ids of entries that stay. */
  readonly seen: Set<string>;
  /** What was known when it began. */
  readonly before: ReadonlyMap<string, string>;
}

export interface HintStreamParts {
  readonly connection: Pick<RedisConnection, 'call' | 'pipeline'>;
  readonly claimIdleMs: number;
}

/** What the records say: hints that nobody has taken yet, and the tokens whose entries stay until what they tell of is over. */
interface Hints<H> {
  readonly waiting: readonly H[];
  readonly held: ReadonlySet<string>;
}

export class HintStream<H extends Hint> {
  readonly #form: HintForm<H>;
  readonly #parts: HintStreamParts;
  /** P1: the id of the entry of each token. */
  readonly #entries = new Map<string, string>();
  readonly #adding = new Map<string, H>();
  /** Tokens in a command that is not answered yet. */
  readonly #inFlight = new Set<string>();
  /** Ids of entries that are to go. */
  readonly #ending = new Set<string>();
  /** Tokens that were settled since the records were last looked at. */
  readonly #settled = new Set<string>();
  #waiting: ReadonlyMap<string, H> = new Map();
  #held: ReadonlySet<string> = new Set();
  #hasGroup = false;
  #isRead = false;
  #scan: Scan | undefined;
  #repairs = 0;
  /** Repairs since something was in the stream, or waited for it. */
  #quiet = 0;
  /** Entries in the stream when it was last asked. */
  length = 0;

  constructor(form: HintForm<H>, parts: HintStreamParts) {
    this.#form = form;
    this.#parts = parts;
  }

  get place(): StreamPlace {
    return this.#form.place;
  }

  /** Nothing is under way or known: it can be forgotten. */
  get isIdle(): boolean {
    return this.#entries.size + this.#adding.size + this.#inFlight.size + this.#ending.size === 0;
  }

  get hasWork(): boolean {
    return this.#adding.size > 0 || this.#ending.size > 0;
  }

  publish(hint: H): void {
    const { token } = hint;
    if (this.#entries.has(token) || this.#adding.has(token) || this.#inFlight.has(token)) return;
    if (this.#adding.size < MAX_ADDING) this.#adding.set(token, hint);
  }

  settle(token: string): void {
    this.#settled.add(token);
    this.#adding.delete(token);
    const id = this.#entries.get(token);
    if (id !== undefined) this.#end(token, id);
  }

  /** Takes over what the records say now. */
  compare({ waiting, held }: Hints<H>): void {
    this.#waiting = new Map(waiting.map((hint) => [hint.token, hint]));
    this.#held = held;
    for (const token of this.#settled) if (!this.#inFlight.has(token)) this.#settled.delete(token);
    for (const token of this.#adding.keys()) if (!this.#isWaiting(token)) this.#adding.delete(token);
    for (const [token, id] of this.#entries) if (!this.#isOpen(token)) this.#end(token, id);
    // Entries of a former brain would be published a second time.
    if (this.#isRead) this.#addMissing();
  }

  /** P1: the connection is a new one. */
  forget(): void {
    this.#entries.clear();
    this.#adding.clear();
    this.#inFlight.clear();
    this.#ending.clear();
    this.#hasGroup = false;
    this.#isRead = false;
    this.#scan = undefined;
    this.#quiet = 0;
  }

  /** Publishes what waits for it, and ends entries whose attempt is over. */
  async flush(): Promise<void> {
    const added = [...this.#adding.values()].slice(0, BATCH);
    const ended = [...this.#ending].slice(0, BATCH);
    for (const { token } of added) {
      this.#adding.delete(token);
      this.#inFlight.add(token);
    }
    for (const id of ended) this.#ending.delete(id);
    const group = this.#hasGroup ? [] : [this.#groupCommand()];
    const additions = added.map((hint) => this.#form.additionOf(hint));
    const endings = ended.length > 0 ? endingOf(this.place, ended) : [];
    if (added.length > 0) crashpoint('stream:before-add');
    if (ended.length > 0) crashpoint('stream:before-ack');
    const replies = await this.#parts.connection.pipeline([
      ...group,
      ...additions,
      ...(ended.length > 0 ? transaction(endings) : []),
    ]);
    if (added.length > 0) crashpoint('stream:after-add');
    if (ended.length > 0) crashpoint('stream:after-ack');
    this.#hasGroup = true;
    for (const [at, { token }] of added.entries()) this.#added(token, replies[group.length + at]);
    await this.#againIfFull(replies, endings);
  }

  #added(token: string, reply: Reply | undefined): void {
    this.#inFlight.delete(token);
    // One that was refused is published again by a later repair.
    if (typeof reply !== 'string') return;
    if (this.#settled.has(token)) this.#ending.add(reply);
    else this.#entries.set(token, reply);
  }

  /** Makes the stream agree with the records; `reclaims`: looks also for entries that were read and never claimed. */
  async repair(reclaims: boolean): Promise<void> {
    const { connection } = this.#parts;
    const isQuiet = this.isIdle && this.length === 0 && this.#waiting.size === 0;
    if (isQuiet && this.#quiet++ % QUIET_EVERY !== 0) return;
    if (!isQuiet) this.#quiet = 0;
    const [made, length] = await connection.pipeline([this.#groupCommand(), ['XLEN', this.place.key]]);
    if (typeof length !== 'number') return;
    this.length = length;
    // There was no group, so there was no stream either, or another one than ours.
    if (made === 'OK') this.#isRead = false;
    const isDue = this.#repairs++ % READ_EVERY === 0;
    if (isDue || !this.#isRead || length !== this.#entries.size) await this.#read();
    if (reclaims) {
      await this.#reclaim();
      await this.#republishPassed();
    }
  }

  /** From 0, so that no entry is passed over that was there before the group. */
  #groupCommand(): Command {
    const { key, group } = this.place;
    return ['XGROUP', 'CREATE', key, group, '0', 'MKSTREAM'];
  }

  /** P3: a long stream is read in several repairs. */
  async #read(): Promise<void> {
    this.#scan ??= { from: '-', seen: new Set(), before: new Map(this.#entries) };
    const scan = this.#scan;
    for (let read = 0; read < MAX_READ; read += PAGE) {
      const page = entriesIn(
        await this.#parts.connection.call(['XRANGE', this.place.key, scan.from, '+', 'COUNT', String(PAGE)]),
      );
      const foreign = page.filter((entry) => this.#form.tokenIn(entry) === undefined);
      const over: string[] = [];
      for (const entry of page) {
        const token = this.#form.tokenIn(entry);
        if (token === undefined || !this.#keeps(token, entry.id)) over.push(entry.id);
        else scan.seen.add(entry.id);
      }
      if (over.length > 0) await this.#remove(over, foreign);
      if (page.length < PAGE) {
        this.#readAll(scan);
        break;
      }
      scan.from = `(${page.at(-1)?.id}`;
    }
    this.#addMissing();
  }

  /** Those that are not ours leave a note. */
  async #remove(ids: readonly string[], foreign: readonly Entry[]): Promise<void> {
    const { key } = this.place;
    const notes = foreign.map((entry) => unusable(key, entry, this.#form.foreign));
    const endings = endingOf(this.place, ids);
    const replies = await this.#parts.connection.pipeline(transaction([...notes, ...endings]));
    await this.#againIfFull(replies, endings);
  }

  /** A server that is full takes no transaction, and no note; entries that go make room. */
  async #againIfFull(replies: readonly Reply[], endings: readonly Command[]): Promise<void> {
    if (endings.length > 0 && replies.some((reply) => codeOf(reply) === 'OOM'))
      await this.#parts.connection.pipeline(endings);
  }

  #readAll({ before, seen }: Scan): void {
    for (const [token, id] of before)
      if (!seen.has(id) && this.#entries.get(token) === id) this.#entries.delete(token);
    this.#scan = undefined;
    this.#isRead = true;
  }

  /** P2: of several entries of a token the first one stays. */
  #keeps(token: string, id: string): boolean {
    const known = this.#entries.get(token);
    if (known !== undefined) return known === id;
    if (!this.#isOpen(token) && !this.#adding.has(token)) return false;
    this.#adding.delete(token);
    this.#entries.set(token, id);
    return true;
  }

  /** Entries that a consumer has read long ago and not claimed: it has died, or lost the answer. */
  async #reclaim(): Promise<void> {
    const { key, group } = this.place;
    const { connection, claimIdleMs } = this.#parts;
    let cursor = '0-0';
    for (let read = 0; read < MAX_READ; read += PAGE) {
      const reply = (await connection.call([
        ...['XAUTOCLAIM', key, group, BRAIN, String(claimIdleMs), cursor],
        ...['COUNT', String(PAGE)],
      ])) as readonly Reply[];
      for (const entry of entriesIn(reply[1])) {
        const token = this.#form.tokenIn(entry);
        // The lease of its consumer says whether an attempt that is held still runs.
        if (token !== undefined && this.#isWaiting(token)) this.#republish(token, entry.id);
      }
      cursor = String(reply[0]);
      if (cursor === '0-0') return;
    }
  }

  /** Entries that the group has passed and that nobody has: it was made anew at a later place than the beginning. */
  async #republishPassed(): Promise<void> {
    const { key, group } = this.place;
    const groups = await this.#parts.connection.call(['XINFO', 'GROUPS', key]);
    const last = groupIn(groups, group)?.lastDelivered ?? '0-0';
    const passed = [...this.#entries]
      .filter(([token, id]) => this.#isWaiting(token) && compareIds(id, last) <= 0)
      .slice(0, MAX_ASKED);
    if (passed.length === 0) return;
    const ids = passed.map(([, id]) => id);
    const pending = await this.#parts.connection.pipeline(pendingCommands(this.place, ids));
    for (const [at, [token, id]] of passed.entries()) if (isPassed(pending[at])) this.#republish(token, id);
  }

  #republish(token: string, id: string): void {
    const hint = this.#waiting.get(token);
    if (!hint || (this.#entries.has(token) && this.#entries.get(token) !== id)) return;
    this.#end(token, id);
    this.publish(hint);
  }

  #end(token: string, id: string): void {
    this.#entries.delete(token);
    this.#ending.add(id);
  }

  #addMissing(): void {
    for (const [token, hint] of this.#waiting) if (this.#isWaiting(token)) this.publish(hint);
  }

  #isWaiting(token: string): boolean {
    return this.#waiting.has(token) && !this.#settled.has(token);
  }

  #isOpen(token: string): boolean {
    return (this.#waiting.has(token) || this.#held.has(token)) && !this.#settled.has(token);
  }
}
