/** `npm run docs`: writes the pages that are generated from tables in the code. test/docs.test.ts compares them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RUN_PHASE_MEANING, RUN_TRANSITIONS, type RunPhase } from '../src/agents/run-phases.ts';
import { ERRORS, type ErrorCode } from '../src/model/errors.ts';
import { REASONS } from '../src/model/reasons.ts';
import {
  ATTEMPT_STATE_MEANING,
  ATTEMPT_TRANSITIONS,
  type AttemptState,
  isOpen,
  isTerminal,
  JOB_STATE_MEANING,
  JOB_TRANSITIONS,
  type JobState,
  WORKER_STATE_MEANING,
  WORKER_TRANSITIONS,
} from '../src/model/states.ts';
import { renderLayers } from './docs/layers.ts';
import { renderRequirements } from './docs/requirements.ts';

const GENERATED = '<!-- Made by `npm run docs`; do not edit. -->';

/** The generated pages: path and the function that renders it. A page added here is written and tested. */
export const PAGES: Readonly<Record<string, () => string>> = {
  'docs/architecture.md': () => renderLayers(GENERATED),
  'docs/errors.md': renderErrors,
  'docs/requirements.md': () => renderRequirements(GENERATED),
  'docs/states.md': renderStates,
};

export function renderErrors(): string {
  const rows = (Object.keys(ERRORS) as ErrorCode[]).map((code) => {
    const { status, retriable, meaning, next } = ERRORS[code];
    const cells = [`\`${code}\``, String(status), retriable ? 'yes' : 'no', meaning, next];
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  });
  return `${[
    GENERATED,
    '',
    '# Errors',
    '',
    'Every error a caller can see has one of these codes. Codes are never renamed or reused. An error comes as',
    '`{"error": {"code", "message", "retriable", …}}`; `retriable` says whether the same request may succeed later.',
    'It can differ from the table where a single case is known better; the answer counts.',
    '',
    '| code | HTTP | retriable | meaning | what to do |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
    '## Reasons',
    '',
    'Where one code stands for several cases, `reason` says which.',
    '',
    '| reason | meaning |',
    '| --- | --- |',
    ...Object.entries(REASONS).map(([reason, meaning]) => `| \`${reason}\` | ${meaning} |`),
  ].join('\n')}\n`;
}

type Table = Readonly<Record<string, readonly string[]>>;

export function renderStates(): string {
  return `${[
    GENERATED,
    '',
    '# States',
    '',
    'A job is what was asked, an attempt is what was started. Nothing persists a change of state outside these',
    'tables (`src/model/states.ts`); every move has a constructor in `src/model/moves.ts`.',
    '',
    '## Job',
    '',
    ...stateTable(JOB_TRANSITIONS, JOB_STATE_MEANING),
    '',
    ...stateDiagram(JOB_TRANSITIONS, 'queued', (state) => isTerminal(state as JobState)),
    '',
    '`failed` does not last: the same commit goes on to `queued`, `dead` or `cancelled`. Only a redrive moves a `dead` job.',
    '',
    '## Attempt',
    '',
    ...stateTable(ATTEMPT_TRANSITIONS, ATTEMPT_STATE_MEANING),
    '',
    ...stateDiagram(ATTEMPT_TRANSITIONS, 'intended', (state) => !isOpen(state as AttemptState)),
    '',
    'The slot stays taken until the attempt is `ended` or `abandoned`, or its backend no longer runs it, whatever the caller of the job was told.',
    '',
    '## Worker',
    '',
    'A worker as it should be; its record goes when its pool no longer shows it.',
    '',
    ...stateTable(WORKER_TRANSITIONS, WORKER_STATE_MEANING),
    '',
    ...stateDiagram(WORKER_TRANSITIONS, 'starting', () => true),
    '',
    '## Run of an agent',
    '',
    'The phase is part of what the job of a run keeps while it waits (`src/agents/run-phases.ts`). The state that',
    '`GET /v2/runs/{id}` shows is read off the jobs of the run instead.',
    '',
    ...stateTable(RUN_TRANSITIONS, RUN_PHASE_MEANING),
    '',
    ...stateDiagram(RUN_TRANSITIONS, 'init', (phase) => RUN_TRANSITIONS[phase as RunPhase].length === 0),
  ].join('\n')}\n`;
}

function stateTable(table: Table, meaning: Readonly<Record<string, string>>): string[] {
  const rows = Object.entries(table).map(([state, next]) => {
    const to = next.length === 0 ? 'nothing' : next.map((each) => `\`${each}\``).join(', ');
    return `| \`${state}\` | ${meaning[state]} | ${to} |`;
  });
  return ['| state | meaning | moves to |', '| --- | --- | --- |', ...rows];
}

function stateDiagram(table: Table, first: string, isLast: (state: string) => boolean): string[] {
  const moves = Object.entries(table).flatMap(([from, next]) => next.map((to) => `  ${from} --> ${to}`));
  const ends = Object.keys(table).filter(isLast);
  const lines = [`  [*] --> ${first}`, ...moves, ...ends.map((state) => `  ${state} --> [*]`)];
  return ['```mermaid', 'stateDiagram-v2', ...lines, '```'];
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..');
  for (const [path, render] of Object.entries(PAGES)) {
    writeFileSync(join(root, path), render());
    console.log(`wrote ${path}`);
  }
}
