/**
 * The body of an answer as it comes in. By listeners, not by iterating: waiting for every piece costs more than a
 * token does.
 */
import type { IncomingMessage } from 'node:http';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';

/** The body broke off before its end. */
export class BrokenBody extends Error {}

/** Looks within the time that a body may be silent; one more look decides. */
export const IDLE_LOOKS = 4;

/** A sender that floods is read many times in one turn of the loop: after so much, others get their turn first. */
const BYTES_PER_TURN = 64 * 1024;

export class ResponseBody {
  readonly #response: IncomingMessage;
  readonly #timers: Timers;
  #isHeld = false;
  #idle: IdleWatch | undefined;

  constructor(response: IncomingMessage, timers: Timers) {
    this.#response = response;
    this.#timers = timers;
    // Heard again by whoever reads.
    response.on('error', () => undefined);
  }

  get isWhole(): boolean {
    return this.#response.readableEnded;
  }

  /** Hands on the pieces until the end; rejects where there is none, and where `on` throws to have no more. */
  async read(on: (piece: Buffer) => void, idle?: { readonly ms: number; onIdle(): void }): Promise<void> {
    const watch = idle && new IdleWatch(this.#timers, idle.ms, idle.onIdle);
    this.#idle = watch;
    if (this.#isHeld) watch?.stop();
    try {
      await this.#pieces((piece) => {
        watch?.heard();
        on(piece);
      });
    } finally {
      watch?.stop();
      this.#idle = undefined;
    }
  }

  /** Reads no more until it is told to go on: the sender has to wait, and its silence does not count. */
  pause(): void {
    this.#isHeld = true;
    this.#response.pause();
    this.#idle?.stop();
  }

  resume(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#idle?.begin();
    this.#response.resume();
  }

  destroy(error: Error): void {
    this.#response.destroy(error);
  }

  #pieces(on: (piece: Buffer) => void): Promise<void> {
    const response = this.#response;
    return new Promise((resolve, reject) => {
      const broken = (error?: Error): void => {
        // It closes after its end too: an error that nobody would hear is not made, it costs as much as a token.
        if (!response.readableEnded) reject(new BrokenBody('', { cause: error }));
      };
      if (response.destroyed) return reject(new BrokenBody());
      let thisTurn = 0;
      response.on('end', resolve).on('error', broken).on('close', broken);
      response.on('data', (piece: Buffer) => {
        try {
          on(piece);
        } catch (error) {
          reject(error);
          response.destroy();
          return;
        }
        thisTurn += piece.length;
        if (thisTurn < BYTES_PER_TURN) return;
        thisTurn = 0;
        response.pause();
        this.#timers.soon(() => this.#isHeld || response.resume());
      });
    });
  }
}

/** Notices silence by looking now and then: a timer for every piece would cost more than the piece. */
class IdleWatch {
  readonly #timers: Timers;
  readonly #ms: number;
  readonly #onIdle: () => void;
  #quietLooks = 0;
  #stop: Cancel = () => undefined;

  constructor(timers: Timers, ms: number, onIdle: () => void) {
    this.#timers = timers;
    this.#ms = ms;
    this.#onIdle = onIdle;
    this.begin();
  }

  heard(): void {
    this.#quietLooks = 0;
  }

  begin(): void {
    this.#stop();
    this.#quietLooks = 0;
    this.#stop = every(this.#timers, this.#ms / IDLE_LOOKS, () => {
      if (++this.#quietLooks > IDLE_LOOKS) this.#onIdle();
    });
  }

  stop(): void {
    this.#stop();
  }
}
