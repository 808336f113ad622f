/** A value that must not be printed. Whatever turns it into text gets a placeholder; only reveal() gives it. */
const PLACEHOLDER = '[redacted]';

export class Secret {
  // A private name, so that spreading, cloning and inspecting find nothing.
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
