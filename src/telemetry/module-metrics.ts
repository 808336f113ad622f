/** Measurements of modules: their scans, what became of their proposals, and the ends that they have handled. */
import type { Registry } from 'prom-client';
import type { ModuleObserver } from '../adapters/modules/parts.ts';
import { OUTCOMES, type ScanCounts } from '../adapters/modules/scan-counts.ts';
import { counter, type Sample } from './family.ts';

class OutcomeCounts {
  /** Counts by module, which the configuration bounds, and outcome. */
  readonly #counts = new Map<string, { readonly module: string; readonly outcome: string; count: number }>();

  add(module: string, outcome: string, by = 1): void {
    const key = `${module} ${outcome}`;
    const known = this.#counts.get(key);
    if (known) known.count += by;
    else this.#counts.set(key, { module, outcome, count: by });
  }

  samples(): Sample[] {
    return Array.from(this.#counts.values(), ({ module, outcome, count }) => [{ module, outcome }, count]);
  }
}

export class ModuleTally implements ModuleObserver {
  readonly scans = new OutcomeCounts();
  readonly proposals = new OutcomeCounts();
  readonly ends = new OutcomeCounts();

  scanned(module: string, outcome: string, counts: ScanCounts): void {
    this.scans.add(module, outcome);
    for (const each of OUTCOMES) this.proposals.add(module, each, counts[each]);
  }

  handled(module: string, outcome: string): void {
    this.ends.add(module, outcome);
  }
}

export function moduleMetrics(tally: ModuleTally, registry: Registry): void {
  counter({
    name: 'orchd_module_scans_total',
    help: 'Scans of modules that have ended, by module and outcome',
    registry,
    samples: () => tally.scans.samples(),
  });
  counter({
    name: 'orchd_module_proposals_total',
    help: 'Proposals of modules, by module and outcome',
    registry,
    samples: () => tally.proposals.samples(),
  });
  counter({
    name: 'orchd_module_handled_total',
    help: 'Calls of modules with the end of a job, by module and outcome',
    registry,
    samples: () => tally.ends.samples(),
  });
}
