/**
 * The ids of the jobs that calls become. An id is made of the run, a hash of what is asked, and the number of times that
 * the program has asked the same. So it is the same in every start of the same program:
 *
 * I1  The hash covers the model and the payload, so an id stands for one question. A program that goes on in the middle,
 *     or makes calls at the same time, finds its jobs too: nothing depends on the order of the calls, as a number of the
 *     step would.
 * I2  A question that is repeated on purpose, to get another answer, has the next number, and so another job.
 * I3  A number is used up when the program has the answer, or its job has ended without one. A call that got no answer
 *     because the brain could not be reached gives it back: the call that repeats it must find the same job.
 */
import { stableHash } from '../kit/hash.ts';

export interface CallId {
  readonly jobId: string;
  /** A short text that no other call of the run has. */
  readonly mark: string;
  /** Gives the number back (I3). */
  release(): void;
}

/** Leaves room for the hash and the number in a job id of 128 characters. */
const MAX_RUN_CHARS = 80;
const RUN = new RegExp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,${MAX_RUN_CHARS - 1}}$`);
const HASH_CHARS = 32;

/** Questions whose numbers are remembered. One that is repeated after so many others gets the answer of its first job. */
const MAX_QUESTIONS = 10_000;

export class CallIds {
  /** The numbers that are used up or in use, by run and hash. */
  readonly #numbers = new Map<string, Set<number>>();

  /** The first number of this question that is free. */
  take(run: string, model: string, payload: object): CallId {
    const hash = stableHash({ model, payload }).slice(0, HASH_CHARS);
    const question = `${run}.${hash}`;
    const taken = this.#numbersOf(question);
    let number = 1;
    while (taken.has(number)) number++;
    taken.add(number);
    return {
      jobId: `${question}.${number}`,
      mark: `${hash.slice(0, 16)}-${number}`,
      release: () => void taken.delete(number),
    };
  }

  #numbersOf(question: string): Set<number> {
    const known = this.#numbers.get(question) ?? new Set<number>();
    // The map is in the order of the last use.
    this.#numbers.delete(question);
    this.#numbers.set(question, known);
    const [oldest] = this.#numbers.keys();
    if (this.#numbers.size > MAX_QUESTIONS && oldest !== undefined) this.#numbers.delete(oldest);
    return known;
  }
}

/** Throws if a text cannot be the id of a run. */
export function checkRun(run: unknown): string {
  if (typeof run === 'string' && RUN.test(run)) return run;
  throw new TypeError(
    `"run" must have 1 to ${MAX_RUN_CHARS} letters, digits, dots, dashes and underscores, and begin with a letter or a digit`,
  );
}
