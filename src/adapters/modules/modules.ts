/** All modules of a brain. They run while it leads, and others may be configured meanwhile. */
import { isDeepStrictEqual } from 'node:util';
import { stableHash } from '../../kit/hash.ts';
import { Service } from '../../kit/service.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ModuleView } from '../../model/http/modules.ts';
import { endLeftModules } from './module-process.ts';
import { ModuleRunner } from './module-runner.ts';
import type { ModuleParts } from './parts.ts';
import type { ModuleSettings } from './settings.ts';

export class Modules extends Service {
  readonly #parts: ModuleParts;
  #runners: ReadonlyMap<string, ModuleRunner>;

  constructor(
    { folder, ...parts }: Omit<ModuleParts, 'scope'> & { readonly folder: string },
    settings: readonly ModuleSettings[],
  ) {
    super();
    this.#parts = { ...parts, scope: stableHash(folder).slice(0, 16) };
    this.#runners = new Map(settings.map((each) => [each.name, new ModuleRunner(this.#parts, each)]));
  }

  views(): ModuleView[] {
    return Array.from(this.#runners.values(), ({ view }) => view);
  }

  /** Starts a scan of one module at once; throws NOT_FOUND if there is no such module. */
  scanNow(name: string): ModuleView {
    const runner = this.#runners.get(name);
    if (!runner) throw new OrchdError('NOT_FOUND', `there is no module "${name}"`);
    runner.scanNow();
    return runner.view;
  }

  /**
   * The modules that there are from now on. One that is unchanged is not disturbed. The processes of one that is removed
   * or changed are ended; an end that it was handling is handled again.
   */
  async apply(settings: readonly ModuleSettings[]): Promise<void> {
    const before = this.#runners;
    const next = new Map(
      settings.map((each) => {
        const known = before.get(each.name);
        const isSame = known !== undefined && isDeepStrictEqual(known.settings, each);
        return [each.name, isSame ? known : new ModuleRunner(this.#parts, each)];
      }),
    );
    const isKept = (runner: ModuleRunner): boolean => next.get(runner.name) === runner;
    const ended = [...before.values()].filter((runner) => !isKept(runner));
    await Promise.all(ended.map((runner) => runner.stop()));
    this.#runners = next;
    await this.#startAll();
  }

  protected async onStart(): Promise<void> {
    await endLeftModules(this.#parts);
    await this.#startAll();
  }

  async #startAll(): Promise<void> {
    for (const runner of this.#runners.values()) if (!this.stopSignal.aborted) await runner.start();
  }

  protected async onStop(): Promise<void> {
    await Promise.all(Array.from(this.#runners.values(), (runner) => runner.stop()));
  }
}
