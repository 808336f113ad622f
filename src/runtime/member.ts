/**
 * A node of a cluster: it stands for the lead, runs a brain while it has it, and stands again when the brain was
 * replaced. A brain that fails for any other reason takes the node with it.
 */
import type { Leader, Leadership, Term } from '../core/ports/leadership.ts';
import type { Env } from '../kit/env/env.ts';
import type { Logger } from '../kit/logger.ts';
import { describeThrown } from '../kit/redact.ts';
import { Service } from '../kit/service.ts';
import { OrchdError } from '../model/errors.ts';

/** What a node runs while it leads. */
export interface Brain {
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Resolves when it has stopped by itself. */
  readonly failed: Promise<Error>;
}

export interface MemberParts<B extends Brain> {
  readonly env: Env;
  readonly leadership: Leadership;
  readonly self: { readonly node: string; readonly address: string };
  /** A brain for one term; it is not started. */
  readonly make: (term: Term) => B;
  readonly logger: Logger;
}

/** For others to take the lead that this node could not use. */
const PAUSE_MS = 500;

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
    parts.leadership.onChange(() => this.#tell());
  }

  /** The brain, while this node leads and the brain has recovered. */
  get brain(): B | undefined {
    return this.#term?.holds() ? this.#brain : undefined;
  }

  /** The epoch in which this node leads, or takes the lead. */
  get epoch(): number | undefined {
    return this.#term?.epoch;
  }

  get leader(): Leader | undefined {
    return this.#parts.leadership.leader;
  }

  /** Resolves at the next change of who leads, or after that time. */
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
    this.#tell();
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
    const brain = this.#parts.make(term);
    const asked = Promise.withResolvers<void>();
    const stopped = Promise.withResolvers<void>();
    this.#endTerm = () => {
      asked.resolve();
      return stopped.promise;
    };
    let isOver = false;
    void term.over.then(() => {
      isOver = true;
    });
    logger.info('this node takes the lead', { epoch: term.epoch });
    try {
      const over = Promise.race([term.over, asked.promise]).then(() => undefined);
      const failure = await Promise.race([brain.start().then(() => this.#lead(brain, term, over)), over]);
      if (failure && !isReplaced(failure)) throw failure;
    } catch (error) {
      if (!isReplaced(error) && !isPassing(error)) throw error;
    } finally {
      this.#brain = undefined;
      this.#term = undefined;
      this.#tell();
      await brain
        .stop()
        .catch((error: unknown) => logger.warn('a brain did not stop', { reason: describeThrown(error) }));
      this.#endTerm = undefined;
      // A brain may fail while its node still has the lead.
      if (!isOver && !this.#stopping) {
        await leadership.resign();
        await this.changed(PAUSE_MS);
      }
      logger.info('this node has given up the lead', { epoch: term.epoch });
      stopped.resolve();
    }
  }

  /** Until the term is over, or the brain fails. A brain whose start took longer than its term never leads. */
  #lead(brain: B, term: Term, over: Promise<undefined>): Promise<Error | undefined> {
    if (this.#term !== term) return over;
    this.#brain = brain;
    this.#tell();
    return Promise.race([brain.failed, over]);
  }

  #tell(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }
}

/** Whether a brain could not begin for a reason that may be gone soon. */
const isPassing = (error: unknown): boolean => error instanceof OrchdError && error.retriable;

/** Whether a brain ended because another one leads. */
function isReplaced(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof OrchdError && at.code === 'FENCED') return true;
  }
  return false;
}
