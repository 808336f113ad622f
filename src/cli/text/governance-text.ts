/** The output of `orchd governance`. */
import type { GovernanceView } from '../../model/http/governance.ts';
import { oneLine } from './screen.ts';

const timeText = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

type Violation = GovernanceView['last_violations'][number];

const violationText = ({ at, job_id, rule, tool, critical, shadow }: Violation): string =>
  [
    timeText(at),
    rule,
    tool === undefined ? `by ${job_id}` : `${tool} by ${job_id}`,
    critical ? '(critical)' : '',
    shadow ? '(not in force)' : '',
  ]
    .filter((part) => part !== '')
    .join(' ');

/** Lists and numbers of the mode, as `name: value`. */
function allowsText(allows: GovernanceView['allows']): string {
  const parts = Object.entries(allows).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return parts.length === 0 ? 'everything that the rules allow' : parts.join('; ');
}

export function governanceLines(view: GovernanceView): string {
  const { mode, since, by, why, next, shadow, allows, rules, violations, last_violations } = view;
  const rows: [string, string][] = [
    ['since', since === 0 ? 'ever' : `${timeText(since)}, set by ${by}: ${why}`],
    ['allows', allowsText(allows)],
    ['next', next.join(', ')],
    ...rules.map(({ name, effect, ...lists }): [string, string] => [
      'rule',
      `${name}: ${effect} ${JSON.stringify(lists)}`,
    ]),
    ['broken', `${violations} rules so far`],
    ...last_violations.map((each): [string, string] => ['', violationText(each)]),
  ];
  const lines = rows.map(([label, text]) => `  ${label.padEnd(8)}${oneLine(text)}`);
  return [shadow ? `${mode} (rules are not in force: shadow)` : mode, ...lines].join('\n');
}
