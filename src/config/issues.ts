/** What is wrong with a configuration. All issues of one load are reported together, each with its place. */
import { OrchdError } from '../model/errors.ts';
import type { Path } from './leaves.ts';

export interface Issue {
  /** Key path inside the configuration, `[n]` for the nth of a list; empty when the issue is about the whole file. */
  readonly path: Path;
  readonly message: string;
  /** Unknown keys are shown at the key, wrong values at the value. */
  readonly at: 'key' | 'value';
}

export interface PlacedIssue {
  /** `config.yaml:3:5`, or the name of an environment variable. */
  readonly position: string;
  readonly field: string;
  readonly message: string;
}

const MOST_ISSUES_SHOWN = 50;

export function failOnIssues(issues: readonly PlacedIssue[]): void {
  const [first] = issues;
  if (first === undefined) return;
  const lines = issues.slice(0, MOST_ISSUES_SHOWN).map(renderIssue);
  const more = issues.length - lines.length;
  if (more > 0) lines.push(`and ${more} more`);
  const details = first.field === '' ? {} : { field: first.field };
  throw new OrchdError('CONFIG_INVALID', lines.join('\n'), { ...details, position: first.position });
}

const renderIssue = ({ position, field, message }: PlacedIssue): string =>
  [position, field, message].filter((part) => part !== '').join(': ');
