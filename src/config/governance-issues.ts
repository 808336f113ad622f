/** What contradicts itself in the section `governance`. */
import { TOOL_CATEGORIES } from '../model/governance.ts';
import type { WrittenGovernance, WrittenRule } from './governance.ts';
import type { Issue } from './issues.ts';

export function governanceIssues({ modes, rules, triggers }: WrittenGovernance): Issue[] {
  const issue = (path: readonly string[], message: string): Issue => ({
    path: ['governance', ...path],
    message,
    at: 'value',
  });
  const ofModes = modes.flatMap(({ mode, categories, approve = [] }, at) => {
    if (modes.findIndex((other) => other.mode === mode) < at)
      return [issue(['modes', `[${at}]`, 'mode'], `the mode ${mode} is there twice`)];
    const useless = approve.filter((name) => isCategory(name) && categories?.includes(name) === false);
    return useless.map((name) =>
      issue(
        ['modes', `[${at}]`, 'approve'],
        `"${name}" can be approved, and is none of the categories of the mode`,
      ),
    );
  });
  const ofRules = rules.flatMap((rule, at) => {
    const path = ['rules', `[${at}]`];
    const earlier = rules.slice(0, at);
    if (earlier.some(({ name }) => name === rule.name))
      return [issue([...path, 'name'], `two rules have the name "${rule.name}"`)];
    if (rule.critical && rule.effect === 'approve')
      return [issue([...path, 'critical'], 'a rule that asks for approval cannot be critical')];
    const opposite = earlier.find(
      (other) => other.effect !== rule.effect && selectors(other) === selectors(rule),
    );
    return opposite
      ? [
          issue(
            [...path, 'effect'],
            `it contradicts the rule "${opposite.name}", which is about the same calls`,
          ),
        ]
      : [];
  });
  const ofTriggers = triggers.flatMap(({ name }, at) =>
    triggers.findIndex((other) => other.name === name) === at
      ? []
      : [issue(['triggers', `[${at}]`, 'name'], `two triggers have the name "${name}"`)],
  );
  return [...ofModes, ...ofRules, ...ofTriggers];
}

const isCategory = (name: string): boolean => (TOOL_CATEGORIES as readonly string[]).includes(name);

/** The same for rules that are about the same calls. */
function selectors({ modes, tools, categories, agents, types, models, tenants }: WrittenRule): string {
  const lists = [modes, tools, categories, agents, types, models, tenants];
  return JSON.stringify(lists.map((list) => list && [...list].sort()));
}
