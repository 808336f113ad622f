/**
 * A call whose answer several callers share. While it is under way, those who ask wait together for the next one: each
 * gets an answer that was asked for after its own request, and never more than one call is under way. The call must end.
 */
export class SharedCall<T> {
  readonly #call: () => Promise<T>;
  #isUnderWay = false;
  #next: PromiseWithResolvers<T> | undefined;

  constructor(call: () => Promise<T>) {
    this.#call = call;
  }

  ask(): Promise<T> {
    if (!this.#isUnderWay) return this.#begin();
    this.#next ??= Promise.withResolvers();
    return this.#next.promise;
  }

  #begin(): Promise<T> {
    this.#isUnderWay = true;
    const answer = Promise.try(this.#call);
    const onEnd = (): void => this.#goOn();
    answer.then(onEnd, onEnd);
    return answer;
  }

  #goOn(): void {
    const next = this.#next;
    this.#next = undefined;
    this.#isUnderWay = false;
    if (next) this.#begin().then(next.resolve, next.reject);
  }
}
