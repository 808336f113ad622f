/**
 * The gate of a kind of jobs that the mode of governance limits: how many run at once, and how many start in a minute. The
 * count of a minute begins anew with every brain, and whenever limits are replaced.
 */
import { Gate } from './gate.ts';

const MINUTE_MS = 60_000;

export class ModeGate extends Gate {
  /** Attempts that have started in the present minute, which ends at `#until`. */
  #started = 0;
  #until = Number.NEGATIVE_INFINITY;

  override get limitsStarts(): boolean {
    return true;
  }

  override get room(): number {
    return Math.min(super.room, (this.limit.perMinute ?? Number.POSITIVE_INFINITY) - this.#started);
  }

  override get rollsAt(): number {
    return this.isOverRate ? this.#until : Number.POSITIVE_INFINITY;
  }

  get isOverRate(): boolean {
    return this.#started >= (this.limit.perMinute ?? Number.POSITIVE_INFINITY);
  }

  override noteStart(now: number): void {
    if (now >= this.#until) {
      this.#started = 0;
      this.#until = now + MINUTE_MS;
    }
    this.#started++;
  }

  override roll(now: number): boolean {
    if (!this.isOverRate || now < this.#until) return false;
    this.#started = 0;
    return true;
  }

  override get isIdle(): boolean {
    return super.isIdle && this.#started === 0;
  }
}
