/** What contradicts itself in the section `governance`. */
import { isListed, JOB_KINDS, type JobKind, TOOL_CATEGORIES } from '../model/governance.ts';
import { RUN_TYPE, TOOL_TYPE } from '../model/run-jobs.ts';
import type { WrittenGovernance, WrittenMode, WrittenRule } from './governance.ts';
import type { Issue } from './issues.ts';

export function governanceIssues({ modes, rules, triggers }: WrittenGovernance): Issue[] {
  const issue = (path: readonly string[], message: string): Issue => ({
    path: ['governance', ...path],
    message,
    at: 'value',
  });
  const ofModes = modes.flatMap((written, at) => {
    const { mode, categories, approve = [] } = written;
    if (modes.findIndex((other) => other.mode === mode) < at)
      return [issue(['modes', `[${at}]`, 'mode'], `the mode ${mode} is there twice`)];
    if (mode === 'LOCKDOWN' && JOB_KINDS.some((kind) => maySome(written, kind)))
      return [issue(['modes', `[${at}]`, 'mode'], NOTHING_STARTS)];
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
    if (rule.effect === 'approve' && !isAboutCalls(rule))
      return [issue([...path, 'effect'], 'only calls of tools and agents can be approved')];
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

/** A written mode replaces its default as a whole, so that what it does not bound is allowed. */
const NOTHING_STARTS = `in LOCKDOWN nothing starts: say running: {${JOB_KINDS.map((kind) => `${kind}: 0`).join(', ')}}`;

/** Whether the mode lets jobs of this kind start. */
const maySome = ({ running, per_minute: perMinute }: WrittenMode, kind: JobKind): boolean =>
  running?.[kind] !== 0 && perMinute?.[kind] !== 0;

/** True for a rule that calls of tools or agents can match: only they can be approved, and they have no model. */
const isAboutCalls = ({ types, models }: WrittenRule): boolean =>
  models === undefined && (!types || [TOOL_TYPE, RUN_TYPE].some((type) => isListed(types, type)));

const isCategory = (name: string): boolean => (TOOL_CATEGORIES as readonly string[]).includes(name);

/** The same for rules that are about the same calls. */
function selectors({ modes, tools, categories, agents, types, models, tenants }: WrittenRule): string {
  const lists = [modes, tools, categories, agents, types, models, tenants];
  return JSON.stringify(lists.map((list) => list && [...list].sort()));
}
