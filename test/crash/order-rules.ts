/**
 * What must come before what, whatever the disk does in between:
 *
 * O1  What a client is told, and what an executor is told to do, is in the log and synced.
 * O2  A file is synced before a rename gives it its name, and the folder before anybody relies on that name.
 * O3  A body is synced, and its file has a durable name, before a record that names it is written.
 * O4  The parts of a checkpoint are durable before its manifest counts, and the manifest before anything goes.
 * O5  A new brain syncs the end of the log that it read before it says, does or writes anything.
 */
import { posix } from 'node:path';
import { recordOf, type TraceEvent } from './trace.ts';

interface Written {
  readonly position: number;
  readonly bytes: number;
  readonly text: string;
}

const isLog = (path: string): boolean => /^log\/\d{16}\.log$/.test(path);

const attemptIsClosed = (token: string): RegExp =>
  recordOf('attempt', token, '"state":"(?:ended|abandoned)"');

const attemptIs = (token: string, state: string): RegExp => recordOf('attempt', token, `"state":"${state}"`);

export class OrderRules {
  readonly problems: string[] = [];
  readonly counts = { acks: 0, starts: 0, releases: 0, syncs: 0, renames: 0, removes: 0, bodies: 0 };
  readonly #unsynced = new Map<string, Written[]>();
  /** Files whose name is not durable yet; true where a rename gave it. */
  readonly #unnamed = new Map<string, boolean>();
  readonly #segments = new Set<string>();
  readonly #logged: string[] = [];
  #tail: string | undefined;
  #manifest = '';

  check(event: TraceEvent): void {
    switch (event.is) {
      case 'begin':
        this.#tail = [...this.#segments].sort().at(-1);
        return;
      case 'create':
        this.#unnamed.set(event.path, false);
        this.#unsynced.delete(event.path);
        return;
      case 'write':
        return this.#write(event);
      case 'sync':
        this.counts.syncs++;
        this.#unsynced.delete(event.path);
        if (event.path === this.#tail) this.#tail = undefined;
        return;
      case 'sync-folder':
        return this.#syncFolder(event.path);
      case 'rename':
        return this.#rename(event.from, event.to);
      case 'remove':
        return this.#remove(event.path);
      case 'start':
        this.counts.starts++;
        return this.#told(attemptIs(event.token, 'intended'), `the start of ${event.token}`);
      case 'release':
        this.counts.releases++;
        return this.#told(attemptIsClosed(event.token), `the release of ${event.token}`);
      case 'ack':
        this.counts.acks++;
        return this.#told(event.record, `the acknowledgement of ${event.what}`);
    }
  }

  /** O1, O2, O5 */
  #told(mention: RegExp, what: string): void {
    this.#checkTail(what);
    if (!this.#logged.some((text) => mention.test(text))) this.#wrong(`${what} comes before its record`);
    for (const [path, writes] of this.#unsynced) {
      if (isLog(path) && writes.some(({ text }) => mention.test(text)))
        this.#wrong(`${what} comes before the sync of ${path}`);
    }
    for (const [path, renamed] of this.#unnamed) {
      if (renamed) this.#wrong(`${what} comes before the folder of the renamed ${path} is synced`);
    }
  }

  #write(write: Written & { readonly path: string }): void {
    const { path, text } = write;
    this.#unsynced.set(path, [...(this.#unsynced.get(path) ?? []), write]);
    if (path === 'checkpoint.tmp') this.#manifest = text;
    if (!isLog(path)) return;
    this.#checkTail(`the write to ${path}`);
    this.#logged.push(text);
    if (this.#unnamed.has(path)) this.#wrong(`${path} is written before its name is durable`);
    for (const [, file, offset] of text.matchAll(/"file":(\d+),"offset":(\d+)/g)) {
      this.#checkBody(path, `blobs/${String(file).padStart(8, '0')}.blob`, Number(offset));
    }
  }

  /** O3 */
  #checkBody(log: string, blob: string, offset: number): void {
    this.counts.bodies++;
    if (this.#unnamed.has(blob)) this.#wrong(`${log} names ${blob} before its folder is synced`);
    const covers = ({ position, bytes }: Written): boolean => position <= offset && offset < position + bytes;
    if (this.#unsynced.get(blob)?.some(covers)) this.#wrong(`${log} names ${blob} before its sync`);
  }

  #syncFolder(folder: string): void {
    for (const path of this.#unnamed.keys()) {
      if (posix.dirname(path) === folder) this.#unnamed.delete(path);
    }
  }

  #rename(from: string, to: string): void {
    this.counts.renames++;
    if (this.#unsynced.has(from)) this.#wrong(`${from} is renamed to ${to} before its sync`);
    this.#unnamed.delete(from);
    this.#unnamed.set(to, true);
    if (isLog(to)) this.#segments.add(to);
    if (to !== 'checkpoint.json') return;
    // O4
    for (const [, name] of this.#manifest.matchAll(/"name":"([^"]+\.part)"/g)) {
      const part = `checkpoints/${name}`;
      if (this.#unsynced.has(part) || this.#unnamed.has(part))
        this.#wrong(`${part} is not durable when its manifest counts`);
    }
  }

  /** O4 */
  #remove(path: string): void {
    this.counts.removes++;
    this.#segments.delete(path);
    for (const manifest of ['checkpoint.json', 'checkpoint.previous.json']) {
      if (this.#unnamed.has(manifest)) this.#wrong(`${path} is removed before ${manifest} is durable`);
    }
  }

  /** O5 */
  #checkTail(what: string): void {
    if (this.#tail === undefined) return;
    this.#wrong(`${what} comes before the sync of ${this.#tail}, which was read at the start`);
    this.#tail = undefined;
  }

  #wrong(what: string): void {
    this.problems.push(what);
  }
}

export function checkOrder(events: Iterable<TraceEvent>): OrderRules {
  const rules = new OrderRules();
  for (const event of events) rules.check(event);
  return rules;
}
