/** Warns once of each model of another server that is not used, because the catalog has another model of its name. */
import type { Backend } from '../../core/ports/backend.ts';
import type { Logger } from '../../kit/logger.ts';

export interface CatalogClashesOptions {
  readonly logger: Logger;
  /** Whether a model of the catalog has this name. */
  readonly isInCatalog: (name: string) => Promise<boolean>;
  /** Whose model it is, such as `an upstream`, and what to do about it, for people. */
  readonly whose: string;
  readonly next: string;
}

export class CatalogClashes {
  readonly #options: CatalogClashesOptions;
  readonly #warned = new Set<string>();

  constructor(options: CatalogClashesOptions) {
    this.#options = options;
  }

  async warn({ info }: Backend): Promise<void> {
    const { logger, isInCatalog, whose, next } = this.#options;
    for (const name of info.models ?? []) {
      if (this.#warned.has(name) || !(await isInCatalog(name).catch(() => false))) continue;
      this.#warned.add(name);
      logger.warn(`a model of ${whose} is not used: the catalog has another model of this name`, {
        backend: info.name,
        model_ref: name,
        reason: next,
      });
    }
  }
}
