/** A string that must not be printed: only reveal() returns it; every conversion to text gives a placeholder. */
const PLACEHOLDER = '[redacted]';

export class Secret {
  // A #private field, so that spreading, cloning and inspecting do not see it.
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return PLACEHOLDER;
  }

  toJSON(): string {
    return PLACEHOLDER;
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return PLACEHOLDER;
  }
}
