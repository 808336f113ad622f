/**
 * The backends that the brain can call, by name: those given at the start and those that sources add. Each is wrapped
 * in a guard once; a later backend of the same name replaces the earlier one.
 */
import type { Backend } from '../core/ports/backend.ts';

export class BackendDirectory {
  readonly #guard: (backend: Backend) => Backend;
  readonly #known = new Map<string, { readonly plain: Backend; readonly guarded: Backend }>();

  constructor(guard: (backend: Backend) => Backend) {
    this.#guard = guard;
  }

  get(name: string): Backend | undefined {
    return this.#known.get(name)?.guarded;
  }

  *values(): Generator<Backend> {
    for (const { guarded } of this.#known.values()) yield guarded;
  }

  put(backend: Backend): void {
    const { name } = backend.info;
    if (this.#known.get(name)?.plain === backend) return;
    this.#known.set(name, { plain: backend, guarded: this.#guard(backend) });
  }

  delete(name: string): void {
    this.#known.delete(name);
  }
}
