/** Work in this process that does what a test orders, for the backends that the conformance suite is run on. */
import { AssertionError } from 'node:assert';
import type { SteeredExecution } from '../../src/backends/conformance/harness.ts';

const PATIENCE_MS = 30_000;

/** Fails where a promise does not settle in far more time than it takes on any machine. */
export async function within<T>(promise: Promise<T>, patienceMs = PATIENCE_MS): Promise<T> {
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const late = (): void => reject(new AssertionError({ message: 'it waits for ever' }));
  const timer = setTimeout(late, patienceMs);
  return Promise.race([promise, tooLong]).finally(() => clearTimeout(timer));
}

let harnesses = 0;

/** Different for every harness of one test process. */
export const harnessId = (): string => `h${++harnesses}`;

/** How the work was ordered to end. */
export type Ordered =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; retriable: boolean };

export class SteeredWork implements SteeredExecution {
  readonly #begun = Promise.withResolvers<unknown>();
  readonly #ordered = Promise.withResolvers<Ordered>();
  readonly #emitters: ((text: string) => void)[] = [];
  #said = '';
  runs = 0;

  get begun(): Promise<unknown> {
    return this.#begun.promise;
  }

  async say(text: string): Promise<void> {
    this.#said += text;
    for (const emit of this.#emitters) emit(text);
  }

  async succeed(): Promise<void> {
    this.#ordered.resolve({ ok: true, text: this.#said });
  }

  async fail(retriable: boolean): Promise<void> {
    this.#ordered.resolve({ ok: false, retriable });
  }

  /** Called by the work itself when it begins; resolves when it is to end. */
  run(payload: unknown, emit: (text: string) => void): Promise<Ordered> {
    this.runs++;
    if (this.#said !== '') emit(this.#said);
    this.#emitters.push(emit);
    this.#begun.resolve(payload);
    return this.#ordered.promise;
  }
}

/** The works of one harness, each made when it is first heard of. */
export class SteeredWorks {
  readonly #works = new Map<string, SteeredWork>();

  /** By the job, since the suite starts one attempt of each. */
  of(job: string): SteeredWork {
    let work = this.#works.get(job);
    if (!work) {
      work = new SteeredWork();
      this.#works.set(job, work);
    }
    return work;
  }

  /** Ends whatever still waits for an order. */
  async end(): Promise<void> {
    for (const work of this.#works.values()) await work.fail(false);
  }
}
