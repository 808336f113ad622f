/** Passes the backends that sources add and remove to the directory and to the engine. */
import type { Backend, BackendListener, BackendSource } from '../core/ports/backend.ts';
import type { BackendDirectory } from './backend-directory.ts';
import type { Loop } from './loop.ts';

export interface SourcesParts {
  readonly sources: readonly BackendSource[];
  readonly backends: BackendDirectory;
  readonly loop: Loop;
}

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
        if (this.#stopped) return;
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
