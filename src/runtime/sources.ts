/** Passes the backends that sources add and remove to the directory and to the engine. */
import type { Backend, BackendListener, BackendSource } from '../core/ports/backend.ts';
import { OWN_TYPES } from '../model/run-jobs.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

export interface SourcesParts {
  readonly sources: readonly BackendSource[];
  readonly backends: BackendDirectory;
  readonly loop: Loop;
}

/** Jobs of these types are the brain's own. No source of ours has them; one of an embedding program is not believed. */
const takesOwnTypes = ({ info: { types = [] } }: Backend): boolean =>
  types.some((type) => OWN_TYPES.includes(type));

export class Sources {
  readonly #parts: SourcesParts;
  #stopped = false;

  constructor(parts: SourcesParts) {
    this.#parts = parts;
  }

  start(): void {
    for (const source of this.#parts.sources) source.start(this.#listenerOf(source));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    // A source that fails to stop must not prevent the others and the store from being closed.
    await Promise.allSettled(this.#parts.sources.map((source) => source.stop()));
  }

  #listenerOf(source: BackendSource): BackendListener {
    const { backends, loop } = this.#parts;
    return {
      present: (backend: Backend) => {
        if (this.#stopped || takesOwnTypes(backend)) return;
        backends.put(backend);
        // A pool worker is added to the fleet by the report of its pool instead.
        if (backend.info.home === undefined) loop.post({ type: 'backend', info: backend.info });
      },
      gone: (name: string) => {
        if (this.#stopped) return;
        backends.delete(name);
        loop.post({ type: 'backend-gone', name });
        source.forget(name);
      },
      free: (name: string) => {
        if (!this.#stopped) loop.post({ type: 'backend-free', name });
      },
    };
  }
}
