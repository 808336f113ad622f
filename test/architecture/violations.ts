/** All rules over one set of files. */
import { ambientViolations } from './ambient.ts';
import { cycleViolations } from './cycles.ts';
import { syntaxViolations, textViolations } from './hygiene.ts';
import { coreViolations, layerViolations, storeViolations } from './layers.ts';
import { sizeViolations } from './size.ts';
import { type Files, sourcesOf } from './source.ts';

export function violations(files: Files): string[] {
  const sources = sourcesOf(files);
  return [
    ...layerViolations(sources),
    ...coreViolations(sources),
    ...storeViolations(sources),
    ...cycleViolations(sources),
    ...sizeViolations(sources),
    ...ambientViolations(sources),
    ...syntaxViolations(sources),
    ...textViolations(files),
  ];
}
