/** All rules over one set of files. */
import { ambientViolations } from './ambient.ts';
import { browserViolations } from './browser.ts';
import { coreOrderViolations, purityViolations } from './core.ts';
import { coreAccessViolations } from './core-access.ts';
import { coreFolderCycleViolations, typeCycleViolations, valueCycleViolations } from './cycles.ts';
import { syntaxViolations, textViolations } from './hygiene.ts';
import { layerViolations, storeViolations } from './layers.ts';
import { sizeViolations } from './sizes.ts';
import { type Files, type Source, sourcesOf } from './source.ts';

type Rule = (sources: readonly Source[], files: Files) => string[];

export const RULES = {
  layers: layerViolations,
  stores: storeViolations,
  'core purity': purityViolations,
  'core order': coreOrderViolations,
  'core access': coreAccessViolations,
  'value cycles': valueCycleViolations,
  'type cycles': typeCycleViolations,
  'core folder cycles': coreFolderCycleViolations,
  browser: browserViolations,
  sizes: sizeViolations,
  ambient: ambientViolations,
  syntax: syntaxViolations,
  text: (_, files) => textViolations(files),
} satisfies Record<string, Rule>;

export type RuleName = keyof typeof RULES;

/** The rules that the repository is not held to so far; take a name out as soon as the code keeps its rule. */
export const NOT_YET_HELD: readonly RuleName[] = ['type cycles', 'browser'];

/** What each rule finds, by its name. */
export function violationsByRule(files: Files): Map<RuleName, string[]> {
  const sources = sourcesOf(files);
  const rules = Object.entries(RULES) as [RuleName, Rule][];
  return new Map(rules.map(([name, rule]) => [name, rule(sources, files)]));
}
