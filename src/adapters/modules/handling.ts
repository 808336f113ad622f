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
  /** Those of `pending` whose last call has failed: they are called again after the others. */
  readonly #failedOnce = new Set<number>();
  #mark: HandledMark | undefined;
  /** Whether jobs may have ended that are not in `pending`. */
  #isBehind = true;
  /** Whether the last thing done about ends that are not in `pending` was to look for them. */
  #hasLooked = false;
  #isCatchingUp = false;
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
    const spec = reads.spec(uid);
    if (spec?.tags?.[MODULE_TAG] !== this.#settings.name) return;
    // Jobs of modules are of the default tenant, whose uids are the ids; others have their tenant before a `~`.
    if (uid.includes('~')) return;
    const n = reads.admission(uid);
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
    const fresh = this.#fresh();
    if (fresh) return this.#take(mark, fresh);
    // Ends that have failed come last, and take turns with a look for others: neither keeps the other waiting for ever.
    const [failed] = this.#pending;
    if (this.#isBehind && !(failed && this.#hasLooked)) return this.#catchUp(mark);
    this.#hasLooked = false;
    if (failed) return this.#take(mark, failed);
    await this.#handler.rest();
    await this.#somethingEnded();
    return true;
  }

  #take(mark: HandledMark, [n, jobId]: readonly [n: number, jobId: string]): Promise<boolean> {
    this.#pending.delete(n);
    return this.#handle(mark, n, jobId);
  }

  /** The next end whose handling has not failed. */
  #fresh(): readonly [n: number, jobId: string] | undefined {
    for (const each of this.#pending) if (!this.#failedOnce.has(each[0])) return each;
    return undefined;
  }

  /** Handles the ends that only the history knows. */
  async #catchUp(mark: HandledMark): Promise<boolean> {
    this.#isBehind = false;
    this.#hasPassedOver = false;
    this.#hasLooked = true;
    this.#isCatchingUp = true;
    try {
      for await (const { n, jobId } of mark.unhandled()) {
        if (this.#signal.aborted) return true;
        if (!this.#pending.has(n) && !(await this.#handle(mark, n, jobId))) return false;
      }
    } finally {
      this.#isCatchingUp = false;
    }
    if (this.#hasPassedOver) await this.#failed(noRoom());
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
    const outcome = await this.#call(jobId).catch(
      (error): HandleOutcome => ({ is: 'failed', why: toOrchdError(error) }),
    );
    if (outcome.is === 'none') return false;
    if (this.#signal.aborted && outcome.is === 'failed') return true;
    this.#parts.observer.handled(this.#settings.name, outcome.is === 'handled' ? 'ok' : 'failed');
    if (outcome.is === 'failed') {
      this.#later(n, jobId);
      if (this.#pending.has(n)) this.#failedOnce.add(n);
      const { code, message } = outcome.why;
      await this.#failed(new OrchdError(code, `job ${jobId}: ${message}`));
      return true;
    }
    this.#failures = 0;
    this.#failedOnce.delete(n);
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
    const delayMs = backoffMs(RETRY, this.#failures, env.random.next());
    const restMs = Math.max(0, delayMs - RETRY.baseDelayMs);
    await pause(env.timers, delayMs - restMs, this.#signal);
    // An end that has not failed does not wait for those that have.
    const isFresh = new AbortController();
    this.#wake = () => isFresh.abort();
    if (this.#isCatchingUp || this.#fresh()) isFresh.abort();
    await pause(env.timers, restMs, AbortSignal.any([this.#signal, isFresh.signal]));
    this.#wake = () => undefined;
  }
}
