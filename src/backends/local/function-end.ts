/** How a function ends its call with a result and with messages for the conversation of its session. */
import type { ExecutionOutcome, SessionList } from '../../core/ports/backend.ts';
import { listOf } from './function-wait.ts';

/** A function returns it instead of a plain result. */
export class SaidResult {
  readonly #result: unknown;
  readonly #said: SessionList;

  constructor(result: unknown, said: SessionList) {
    this.#result = result;
    this.#said = said;
  }

  outcome(): Extract<ExecutionOutcome, { ok: true }> {
    const { name, values } = this.#said;
    const said = { ...this.#said, values: listOf(name, values) };
    return { ok: true, resultText: JSON.stringify(this.#result) ?? 'null', said };
  }
}
