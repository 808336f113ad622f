/**
 * The backends that can be talked to, by name: those that were given at the start, and those that sources bring.
 * Each is guarded once; a backend of the same name that comes later takes the place of the first.
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
