/**
 * The gate of a kind of jobs that the mode of governance limits: how many run at once, and how many start in a minute. The
 * count of a minute is kept, so that it goes on in a later brain and when limits are replaced.
 */
import type { SpentRecord } from '../../model/limit-records.ts';
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

  /** A rate of 0 lets nothing start in the next minute either: only another mode does. */
  override get rollsAt(): number {
    return this.isOverRate && this.limit.perMinute !== 0 ? this.#until : Number.POSITIVE_INFINITY;
  }

  get isOverRate(): boolean {
    return this.#started >= (this.limit.perMinute ?? Number.POSITIVE_INFINITY);
  }

  override noteStart(now: number): boolean {
    if (now >= this.#until) {
      this.#started = 0;
      this.#until = now + MINUTE_MS;
    }
    this.#started++;
    return this.limit.perMinute !== undefined;
  }

  override roll(now: number): boolean {
    if (now < this.rollsAt) return false;
    this.#started = 0;
    return true;
  }

  /** Brain time was stepped: the rest of the minute stays as it was. The caller moves the stored record. */
  override moveInstants(byMs: number): void {
    this.#until += byMs;
  }

  override resume({ minute }: SpentRecord): void {
    if (!minute) return;
    this.#started = minute.started;
    this.#until = minute.until;
  }

  override kept(): Pick<SpentRecord, 'minute'> | undefined {
    if (this.limit.perMinute === undefined || this.#started === 0) return undefined;
    return { minute: { started: this.#started, until: this.#until } };
  }

  override get isIdle(): boolean {
    return super.isIdle && this.#started === 0;
  }
}
