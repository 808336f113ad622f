/** The mode of governance, and broken rules. */
import type { Registry } from 'prom-client';
import { MODES } from '../model/governance.ts';
import type { Figures } from '../runtime/figures.ts';
import { counter, gauge, single } from './family.ts';

export function governanceMetrics(figures: () => Figures, registry: Registry): void {
  gauge({
    name: 'orchd_governance_mode',
    help: '1 for the mode that is in force, 0 for the others',
    registry,
    samples: () => {
      const { governance } = figures();
      return governance ? MODES.map((mode) => [{ mode }, mode === governance.mode ? 1 : 0]) : [];
    },
  });
  counter({
    name: 'orchd_governance_violations_total',
    help: 'Rules of governance that were broken, or would have been',
    registry,
    samples: () => single(figures().governance?.violations),
  });
}
