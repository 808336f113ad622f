/**
 * Hands the ends of a module's jobs to its `handle`, each at least once: one after the other, and again after a
 * failure. What ended while no brain ran is found by the tag of the module, after its mark.
 */
import { backoffMs } from '../../kit/backoff.ts';
import type { Cancel } from '../../kit/env/env.ts';
import { pause } from '../../kit/pause.ts';
import { OrchdError, toOrchdError } from '../../model/errors.ts';
import { taggedJobs } from '../../runtime/tagged-jobs.ts';
import { type EndHandler, type EndText, endHandler, type HandleOutcome } from './end-handler.ts';
import { HandledMark } from './handled-mark.ts';
import { type ModuleParts, RETRY } from './parts.ts';
import { MODULE_TAG, principalOf } from './proposal.ts';
import type { ModuleSettings } from './settings.ts';

/** Ends beyond this are found again by the mark, once these are handled. */
const MAX_PENDING = 10_000;

const noRoom = (): OrchdError =>
  new OrchdError('QUEUE_FULL', 'too many jobs have ended while older ones of the module have not');

export class Handling {
  readonly #parts: ModuleParts;
  readonly #settings: ModuleSettings;
  readonly #signal: AbortSignal;
  readonly #handler: EndHandler;
  /** Job ids by admission number. */
  readonly #pending = new Map<number, string>();
  #mark: HandledMark | undefined;
  /** Whether jobs may have ended that are not in `pending`. */
  #isBehind = true;
  /** Whether an end waits for room in the mark. */
  #hasPassedOver = false;
  #wake: () => void = () => undefined;
  #unsubscribe: Cancel = () => undefined;
  #failures = 0;
  handled = 0;
  /** Why the last call failed; undefined after one that worked. */
  problem: OrchdError | undefined;

  constructor(parts: ModuleParts, settings: ModuleSettings, signal: AbortSignal) {
    this.#parts = parts;
    this.#settings = settings;
    this.#signal = signal;
    this.#handler = endHandler(parts, settings);
  }

  get pending(): number {
    return this.#pending.size;
  }

  /** Resolves when the signal is aborted, or at once for a module without `handle`. */
  async run(): Promise<void> {
    if (this.#settings.handleArgv === undefined) return;
    const stop = (): void => {
      this.#handler.stop();
      this.#wake();
    };
    this.#signal.addEventListener('abort', stop);
    // Subscribes first, and looks for earlier ends afterwards: none is missed in between.
    this.#unsubscribe = this.#parts.orchestrator.ends.subscribe(({ uid }) => this.#ended(uid));
    while (!this.#signal.aborted) {
      try {
        if (!(await this.#step())) break;
      } catch (error) {
        this.#isBehind = true;
        await this.#failed(toOrchdError(error));
      }
    }
    this.#unsubscribe();
    this.#handler.stop();
    this.#signal.removeEventListener('abort', stop);
  }

  /** Called within each commit. */
  #ended(uid: string): void {
    const { reads } = this.#parts.orchestrator;
    if (reads.spec(uid)?.tags?.[MODULE_TAG] !== this.#settings.name) return;
    const n = reads.admission(uid);
    // The uid of a job of the default tenant is its id; jobs of modules are of that tenant.
    if (n !== undefined) this.#later(n, uid);
    this.#wake();
  }

  #later(n: number, jobId: string): void {
    if (this.#pending.size < MAX_PENDING) this.#pending.set(n, jobId);
    else this.#isBehind = true;
  }

  /** False if the module has no `handle`. */
  async #step(): Promise<boolean> {
    const mark = await this.#openMark();
    const [first] = this.#pending;
    if (first) {
      this.#pending.delete(first[0]);
      return this.#handle(mark, ...first);
    }
    if (this.#isBehind) {
      this.#isBehind = false;
      this.#hasPassedOver = false;
      for await (const { n, jobId } of mark.unhandled()) {
        if (this.#signal.aborted) return true;
        this.#pending.delete(n);
        if (!(await this.#handle(mark, n, jobId))) return false;
      }
      if (this.#hasPassedOver) await this.#failed(noRoom());
      return true;
    }
    await this.#handler.rest();
    await this.#somethingEnded();
    return true;
  }

  async #openMark(): Promise<HandledMark> {
    const { reads, moduleMarks } = this.#parts.orchestrator;
    const { name } = this.#settings;
    this.#mark ??= new HandledMark(
      {
        jobsAfter: (n, limit) => taggedJobs(reads, { [MODULE_TAG]: name }, n, limit),
        write: (ranges) => moduleMarks.write(name, ranges, principalOf(name)),
      },
      await moduleMarks.read(name),
    );
    return this.#mark;
  }

  #somethingEnded(): Promise<void> {
    if (this.#pending.size > 0 || this.#isBehind || this.#signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  async #handle(mark: HandledMark, n: number, jobId: string): Promise<boolean> {
    if (!(await mark.hasRoomFor(n))) {
      // The mark finds it again.
      this.#isBehind = true;
      this.#hasPassedOver = true;
      return true;
    }
    const outcome = await this.#call(jobId);
    if (outcome.is === 'none') return false;
    if (this.#signal.aborted && outcome.is === 'failed') return true;
    this.#parts.observer.handled(this.#settings.name, outcome.is === 'handled' ? 'ok' : 'failed');
    if (outcome.is === 'failed') {
      this.#later(n, jobId);
      const { code, message } = outcome.why;
      await this.#failed(new OrchdError(code, `job ${jobId}: ${message}`));
      return true;
    }
    this.#failures = 0;
    this.problem = undefined;
    await mark.add(n);
    this.handled++;
    return true;
  }

  async #call(jobId: string): Promise<HandleOutcome> {
    const text = await this.#textOf(jobId);
    // The retention of the history has ended meanwhile: nobody can tell about the job any more.
    if (text === undefined) return { is: 'handled' };
    try {
      return await this.#handler.handle(text);
    } finally {
      if (typeof text !== 'string') text.release();
    }
  }

  async #textOf(jobId: string): Promise<EndText | undefined> {
    try {
      return await this.#parts.orchestrator.getJson(jobId, undefined, 'later');
    } catch (error) {
      if (error instanceof OrchdError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  async #failed(problem: OrchdError): Promise<void> {
    const { env, logger } = this.#parts;
    if (this.#failures++ === 0)
      logger.warn('a module did not handle the end of a job', { actor: this.#settings.name });
    this.problem = problem;
    await pause(env.timers, backoffMs(RETRY, this.#failures, env.random.next()), this.#signal);
  }
}
