/** All rules over one set of files. */
import { ambientViolations } from './ambient.ts';
import { browserViolations } from './browser.ts';
import { coreOrderViolations, purityViolations } from './core.ts';
import { coreAccessViolations } from './core-access.ts';
import { coreFolderCycleViolations, typeCycleViolations, valueCycleViolations } from './cycles.ts';
import { decisionViolations } from './decisions.ts';
import { fileModeViolations } from './file-modes.ts';
import { syntaxViolations, textViolations } from './hygiene.ts';
import { layerViolations, storeViolations } from './layers.ts';
import { sizeViolations } from './sizes.ts';
import { type Files, sourcesOf } from './source.ts';
import { storeNameViolations } from './store-names.ts';
import { terminalViolations } from './terminal.ts';

/** Every rule; what one of them finds is a line that begins with the path of a file. */
export function violations(files: Files): string[] {
  const sources = sourcesOf(files);
  return [
    ...layerViolations(sources),
    ...storeViolations(sources),
    ...storeNameViolations(sources),
    ...purityViolations(sources),
    ...coreOrderViolations(sources),
    ...coreAccessViolations(sources),
    ...valueCycleViolations(sources),
    ...typeCycleViolations(sources),
    ...coreFolderCycleViolations(sources),
    ...browserViolations(sources),
    ...sizeViolations(sources),
    ...ambientViolations(sources),
    ...fileModeViolations(sources),
    ...terminalViolations(sources),
    ...syntaxViolations(sources),
    ...textViolations(files),
    ...decisionViolations(files),
  ];
}
