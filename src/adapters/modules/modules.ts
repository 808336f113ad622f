/** All modules of a brain. They run while it leads. */
import { stableHash } from '../../kit/hash.ts';
import { ServiceList } from '../../kit/service-list.ts';
import { OrchdError } from '../../model/errors.ts';
import type { ModuleView } from '../../model/http/modules.ts';
import { ModuleRunner } from './module-runner.ts';
import type { ModuleParts } from './parts.ts';
import type { ModuleSettings } from './settings.ts';

export class Modules extends ServiceList {
  readonly #runners: ReadonlyMap<string, ModuleRunner>;

  constructor(
    { folder, ...parts }: Omit<ModuleParts, 'scope'> & { readonly folder: string },
    settings: readonly ModuleSettings[],
  ) {
    const scope = stableHash(folder).slice(0, 16);
    const runners = settings.map((each) => new ModuleRunner({ ...parts, scope }, each));
    super(runners);
    this.#runners = new Map(runners.map((runner) => [runner.name, runner]));
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
}
