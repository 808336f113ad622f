/**
 * A node of a cluster: it runs for leader, runs a brain while it leads, and runs again after its brain was replaced. A
 * brain that fails for any other reason stops the node.
 */
import type { Leader, Leadership, Term } from '../core/ports/leadership.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { Service } from '../kit/service.ts';
import { OrchdError } from '../model/errors.ts';

/** The service that a node runs while it leads. */
export interface Brain {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Starts no more work and waits, for a limited time, for work that the next leader could not go on with. */
  drain(): Promise<void>;
  /** Resolves when the brain has stopped by itself. */
  readonly failed: Promise<Error>;
}

export interface MemberParts<B extends Brain> {
  readonly env: Env;
  readonly leadership: Leadership;
  readonly self: { readonly node: string; readonly address: string };
  /** Makes a brain for one term, without starting it. */
  readonly makeBrain: (term: Term) => B;
  readonly logger: Logger;
}

/** Pause after resigning, so that another node can take the lead. */
const RESIGN_PAUSE_MS = 500;

export class Member<B extends Brain> extends Service {
  readonly #parts: MemberParts<B>;
  #brain: B | undefined;
  #term: Term | undefined;
  #running: Promise<void> | undefined;
  #stopping = false;
  #endTerm: (() => Promise<void>) | undefined;
  readonly #waiters = new Set<() => void>();
  failure: Error | undefined;

  constructor(parts: MemberParts<B>) {
    super();
    this.#parts = parts;
    parts.leadership.onChange(() => this.#notifyWaiters());
  }

  /** The brain of this node; undefined unless the node leads and the brain has recovered. */
  get brain(): B | undefined {
    return this.#term?.holds() ? this.#brain : undefined;
  }

  /** The epoch in which this node leads or is taking the lead. */
  get epoch(): number | undefined {
    return this.#term?.epoch;
  }

  get leader(): Leader | undefined {
    return this.#parts.leadership.leader;
  }

  /** Drains the brain if this node leads; the brain goes on answering, because no other node leads meanwhile. */
  async drain(): Promise<void> {
    await this.brain?.drain();
  }

  /** Resolves at the next change of leader, or after `atMostMs`. */
  changed(atMostMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel();
        this.#waiters.delete(done);
        resolve();
      };
      const cancel = this.#parts.env.timers.after(atMostMs, done);
      this.#waiters.add(done);
    });
  }

  protected async onStart(): Promise<void> {
    const { leadership, self } = this.#parts;
    await leadership.open(self);
    this.#running = this.#terms();
  }

  protected async onStop(): Promise<void> {
    this.#stopping = true;
    this.#notifyWaiters();
    await this.#endTerm?.();
    await this.#parts.leadership.close();
    await this.#running;
  }

  async #terms(): Promise<void> {
    const { leadership } = this.#parts;
    while (!this.#stopping) {
      try {
        await this.#serve(await leadership.win());
      } catch (error) {
        if (this.#stopping) return;
        this.failure = error as Error;
        await leadership.close();
        return;
      }
    }
  }

  async #serve(term: Term): Promise<void> {
    this.#term = term;
    const { leadership, logger } = this.#parts;
    const brain = this.#parts.makeBrain(term);
    const stopRequested = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<void>();
    this.#endTerm = () => {
      stopRequested.resolve();
      return stopped.promise;
    };
    let isOver = false;
    void term.over.then(() => {
      isOver = true;
    });
    logger.info('this node takes the lead', { epoch: term.epoch });
    try {
      const over = Promise.race([term.over, stopRequested.promise]).then(() => undefined);
      const failure = await Promise.race([brain.start().then(() => this.#lead(brain, term, over)), over]);
      if (failure && !isReplaced(failure)) throw failure;
    } catch (error) {
      if (!isReplaced(error) && !isTransient(error)) throw error;
    } finally {
      this.#brain = undefined;
      this.#term = undefined;
      this.#notifyWaiters();
      await brain
        .stop()
        .catch((error: unknown) => logger.warn('a brain did not stop', { reason: describeThrown(error) }));
      this.#endTerm = undefined;
      // The brain failed or stopped while this node still has the lead.
      if (!isOver && !this.#stopping) {
        await leadership.resign();
        await this.changed(RESIGN_PAUSE_MS);
      }
      logger.info('this node has given up the lead', { epoch: term.epoch });
      stopped.resolve();
    }
  }

  /**
   * Resolves when the term is over or the brain fails. A brain that started only after its term had ended never leads.
   */
  #lead(brain: B, term: Term, over: Promise<undefined>): Promise<Error | undefined> {
    if (this.#term !== term) return over;
    this.#brain = brain;
    this.#notifyWaiters();
    return Promise.race([brain.failed, over]);
  }

  #notifyWaiters(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}

/** Whether the error of a brain that could not start may be gone soon. */
const isTransient = (error: unknown): boolean => error instanceof OrchdError && error.retriable;

/** Whether the brain ended because another one leads. */
function isReplaced(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof OrchdError && at.code === 'FENCED') return true;
  }
  return false;
}
