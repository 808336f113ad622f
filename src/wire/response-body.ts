/**
 * Reads the body of an answer as it arrives. It uses listeners instead of async iteration: awaiting each piece would
 * cost more than the token in it.
 */
import type { IncomingMessage } from 'node:http';
import type { Cancel, Timers } from '../kit/env/env.ts';
import { every } from '../kit/every.ts';

/** The connection was lost before the end of the body. */
export class BrokenBody extends Error {}

/** Number of checks within the time that a body may be silent; the body is idle if one more check finds it silent. */
export const IDLE_CHECKS = 4;

/** Bytes read from one body before other callbacks of the event loop get a turn: a fast sender must not block them. */
const BYTES_PER_TURN = 64 * 1024;

export class ResponseBody {
  readonly #response: IncomingMessage;
  readonly #timers: Timers;
  #isPaused = false;
  #idle: IdleWatch | undefined;

  constructor(response: IncomingMessage, timers: Timers) {
    this.#response = response;
    this.#timers = timers;
    // `read` reports the error; without a reader it must not crash the process.
    response.on('error', () => undefined);
  }

  get isWhole(): boolean {
    return this.#response.readableEnded;
  }

  /** Passes the pieces to `on` until the end. Rejects if the body breaks off, or with what `on` throws. */
  async read(on: (piece: Buffer) => void, idle?: { readonly ms: number; onIdle(): void }): Promise<void> {
    const watch = idle && new IdleWatch(this.#timers, idle.ms, idle.onIdle);
    this.#idle = watch;
    if (this.#isPaused) watch?.stop();
    try {
      await this.#readPieces((piece) => {
        watch?.received();
        on(piece);
      });
    } finally {
      watch?.stop();
      this.#idle = undefined;
    }
  }

  /** Stops reading until `resume`. The sender has to wait, and its silence does not count as idle. */
  pause(): void {
    this.#isPaused = true;
    this.#response.pause();
    this.#idle?.stop();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#idle?.begin();
    this.#response.resume();
  }

  destroy(error: Error): void {
    this.#response.destroy(error);
  }

  #readPieces(on: (piece: Buffer) => void): Promise<void> {
    const response = this.#response;
    return new Promise((resolve, reject) => {
      const broken = (error?: Error): void => {
        // `close` follows a complete body too. No error is created then: that would cost as much as a token.
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
        this.#timers.soon(() => this.#isPaused || response.resume());
      });
    });
  }
}

/** Detects silence by periodic checks: a timer per piece would cost more than the piece. */
class IdleWatch {
  readonly #timers: Timers;
  readonly #ms: number;
  readonly #onIdle: () => void;
  #silentChecks = 0;
  #stop: Cancel = () => undefined;

  constructor(timers: Timers, ms: number, onIdle: () => void) {
    this.#timers = timers;
    this.#ms = ms;
    this.#onIdle = onIdle;
    this.begin();
  }

  received(): void {
    this.#silentChecks = 0;
  }

  begin(): void {
    this.#stop();
    this.#silentChecks = 0;
    this.#stop = every(this.#timers, this.#ms / IDLE_CHECKS, () => {
      if (++this.#silentChecks > IDLE_CHECKS) this.#onIdle();
    });
  }

  stop(): void {
    this.#stop();
  }
}
