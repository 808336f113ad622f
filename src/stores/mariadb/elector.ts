/**
 * One node's part in the election: it watches who leads, stands for the lead when it is told to, and renews the lead
 * while it has it. It runs on a thread of its own, so that a main loop that is busy does not lose the lead; for a main
 * loop that is stuck nothing is renewed.
 *
 * E1  The time of a lead is counted from before its renewal was sent, so a lead ends here before it ends in the row.
 * E2  A leader whose lock is lost with its connection does not act as the leader until it has renewed its lead.
 * E3  After a term is over this node does not stand again until the main loop has stopped its engine and says so.
 */
import type { Leader } from '../../core/ports/leadership.ts';
import type { Timers } from '../../kit/env/env.ts';
import {
  type Candidate,
  contend,
  getLock,
  giveUp,
  type IsGone,
  leaderOf,
  releaseLock,
  renew,
} from './election.ts';
import type { Connect, Sql } from './sql.ts';

export type ElectorMessage =
  | { readonly is: 'leader'; readonly leader: Leader | undefined }
  | { readonly is: 'won'; readonly epoch: number }
  | { readonly is: 'over'; readonly why: string }
  | { readonly is: 'closed' };

export interface ElectorParts {
  readonly connect: Connect;
  readonly self: Candidate;
  readonly lockName: string;
  readonly isGone: IsGone;
  readonly timers: Timers;
  /** Milliseconds on a clock that goes on while the process is stopped. */
  readonly now: () => number;
  /** When the main loop was last alive. */
  readonly lastBeat: () => number;
  readonly setHeldUntil: (at: number) => void;
  readonly say: (what: ElectorMessage) => void;
}

/** A main loop that has given no sign of life for this many terms is stuck. */
const STUCK_TERMS = 3;
const LOCK_WAIT_SEC = 1;
/** Renewals in one term. */
const RENEWALS = 5;
/** The last part of a term in which this node no longer acts as the leader. */
const MARGIN = 0.1;
const LEADER_POLL_MS = 500;
const RECONNECT_MS = 200;

export class Elector {
  readonly #parts: ElectorParts;
  #mode: 'watch' | 'stand' | 'lead' = 'watch';
  #connection: Sql | undefined;
  #hasLock = false;
  #epoch = 0;
  #heldUntil = 0;
  #told = '';
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(parts: ElectorParts) {
    this.#parts = parts;
  }

  /** Stands for the lead from now on. */
  stand(): void {
    if (this.#mode === 'watch') this.#mode = 'stand';
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  /** Takes part in the election until it is closed. */
  async run(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.#turn(await this.#connected());
      } catch {
        this.#loseConnection();
        await this.#pause(RECONNECT_MS);
      }
      if (this.#mode === 'lead' && this.#parts.now() >= this.#heldUntil) this.#over('its time has run out');
    }
    await this.#leave();
    this.#parts.say({ is: 'closed' });
  }

  async #connected(): Promise<Sql> {
    if (this.#connection) return this.#connection;
    const connection = this.#parts.connect();
    try {
      this.#connection = await this.#inTime(connection);
    } catch (error) {
      // The connection may still be made after this: it is closed then.
      connection.then((sql) => sql.destroy()).catch(() => undefined);
      throw error;
    }
    const connected = this.#connection;
    // A connection that ends between two renewals is noticed at once.
    connected.onLost(() => {
      if (this.#connection !== connected) return;
      this.#loseConnection();
      this.#wake?.();
    });
    return connected;
  }

  #loseConnection(): void {
    // The lock is lost with the connection: another node may have it.
    if (this.#hasLock) this.#parts.setHeldUntil(0);
    this.#drop();
  }

  #turn(sql: Sql): Promise<void> {
    if (this.#mode === 'lead') return this.#renew(sql);
    return this.#mode === 'stand' ? this.#stand(sql) : this.#watch(sql);
  }

  async #watch(sql: Sql): Promise<void> {
    await this.#look(sql);
    await this.#pause(LEADER_POLL_MS);
  }

  async #stand(sql: Sql): Promise<void> {
    const { self, lockName, now, isGone } = this.#parts;
    this.#hasLock ||= await this.#inTime(getLock(sql, lockName, LOCK_WAIT_SEC));
    if (this.#closed) return;
    const start = now();
    const epoch = await this.#inTime(contend(sql, self, { gotLock: this.#hasLock, isGone }));
    if (epoch !== undefined) return this.#lead(epoch, start);
    await this.#look(sql);
    if (!this.#hasLock) return;
    // The lock is for the leader.
    this.#hasLock = false;
    await this.#inTime(releaseLock(sql, lockName));
    await this.#pause(LEADER_POLL_MS);
  }

  #lead(epoch: number, start: number): void {
    this.#mode = 'lead';
    this.#epoch = epoch;
    this.#hold(start);
    this.#parts.say({ is: 'won', epoch });
  }

  async #renew(sql: Sql): Promise<void> {
    const { self, lockName, now, lastBeat } = this.#parts;
    const start = now();
    const silentMs = Math.max(0, Math.round(start - lastBeat()));
    if (silentMs > STUCK_TERMS * self.ttlMs) return this.#pause(LEADER_POLL_MS);
    this.#hasLock ||= await this.#inTime(getLock(sql, lockName, 0));
    const held = await this.#inTime(
      renew(sql, this.#epoch, self.ttlMs, { hasLock: this.#hasLock, silentMs }),
    );
    if (!held) return this.#over('another node leads');
    // The lock may be lost again with the connection.
    if (this.#connection !== sql) return;
    this.#hold(start);
    await this.#pause(self.ttlMs / RENEWALS);
  }

  #hold(start: number): void {
    this.#heldUntil = start + this.#parts.self.ttlMs * (1 - MARGIN);
    this.#parts.setHeldUntil(this.#heldUntil);
  }

  #over(why: string): void {
    this.#mode = 'watch';
    this.#parts.setHeldUntil(0);
    this.#parts.say({ is: 'over', why });
    // The lock is given back with the connection: it is for the node that leads now.
    this.#drop();
  }

  async #leave(): Promise<void> {
    try {
      const connection = this.#connection;
      if (connection && this.#mode === 'lead') await this.#inTime(giveUp(connection, this.#epoch));
      if (connection) await this.#inTime(connection.close());
    } catch {
      // The lead expires by itself.
    }
    this.#drop();
  }

  async #look(sql: Sql): Promise<void> {
    const leader = await this.#inTime(leaderOf(sql));
    const told = JSON.stringify(leader ?? null);
    if (told === this.#told) return;
    this.#told = told;
    this.#parts.say({ is: 'leader', leader });
  }

  #drop(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#hasLock = false;
    connection?.destroy();
  }

  /** Fails a call that is not answered in time: a network may drop packets without any error. */
  #inTime<T>(call: Promise<T>): Promise<T> {
    const { timers, self, now } = this.#parts;
    return new Promise((resolve, reject) => {
      const patience = Math.max(self.ttlMs / 2, 2 * LOCK_WAIT_SEC * 1000);
      // A leader waits for an answer no longer than its lead lasts.
      const ms = this.#mode === 'lead' ? Math.min(patience, this.#heldUntil - now()) : patience;
      const cancel = timers.after(Math.max(1, ms), () => reject(new Error('no answer')));
      call.then(resolve, reject).finally(cancel);
    });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#parts.timers.after(ms, resolve);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}
