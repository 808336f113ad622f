/**
 * Watches the connection to the leader while answers are awaited that may take as long as a job. Such an answer does
 * not show whether the leader is silent or only busy, so the leader is asked a short question beside it: one at a time,
 * however many answers are awaited.
 */
import type { Cancel, Timers } from '../kit/env/env.ts';
import { wasBusy } from '../wire/exchange.ts';
import type { Target } from '../wire/outbound.ts';

/** A route that every node answers itself, without a token. */
const QUESTION = { path: '/leader' } as const;

/**
 * A leader that has not answered so many questions in a row is silent. They are counted, and not the time: this process
 * may have been stopped itself.
 */
const MAX_UNANSWERED = 3;

export interface HopWatchParts {
  readonly timers: Timers;
  readonly target: Pick<Target, 'request'>;
  /** Time between two questions, and the timeout of each. */
  readonly intervalMs: number;
}

export class HopWatch {
  readonly #parts: HopWatchParts;
  readonly #watchers = new Set<() => void>();
  #end: Cancel | undefined;

  constructor(parts: HopWatchParts) {
    this.#parts = parts;
  }

  /** Calls `onSilent` once if the leader stops answering; the returned function ends the watch. */
  add(onSilent: () => void): Cancel {
    this.#watchers.add(onSilent);
    this.#end ??= this.#begin();
    return () => {
      this.#watchers.delete(onSilent);
      if (this.#watchers.size === 0) this.#stop();
    };
  }

  #begin(): Cancel {
    const { timers, intervalMs } = this.#parts;
    let isOver = false;
    let unanswered = 0;
    const ask = async (): Promise<void> => {
      const isAnswered = await this.#ask();
      if (isOver) return;
      unanswered = isAnswered ? 0 : unanswered + 1;
      if (unanswered === MAX_UNANSWERED) this.#giveUp();
      else cancel = timers.after(intervalMs, () => void ask());
    };
    let cancel = timers.after(intervalMs, () => void ask());
    return () => {
      isOver = true;
      cancel();
    };
  }

  #ask(): Promise<boolean> {
    const { target, intervalMs } = this.#parts;
    // Promise.try: a target without a free connection throws at once.
    return Promise.try(() => target.request({ ...QUESTION, timeoutMs: intervalMs })).then(
      () => true,
      // All connections of this node are in use: that says nothing about the leader.
      (error: unknown) => wasBusy(error),
    );
  }

  #giveUp(): void {
    const silent = [...this.#watchers];
    this.#watchers.clear();
    this.#stop();
    for (const onSilent of silent) onSilent();
  }

  #stop(): void {
    this.#end?.();
    this.#end = undefined;
  }
}
