/** `npm run docs`: the pages that are made from tables in the code. test/docs.test.ts compares them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ERRORS, type ErrorCode } from '../src/model/errors.ts';

/** File → what it should hold. A page that is added here is written and tested. */
export const PAGES: Readonly<Record<string, () => string>> = {
  'docs/errors.md': renderErrors,
  // 'docs/states.md': renderStates, from the two state tables in src/model
};

const GENERATED = '<!-- Made by `npm run docs`; do not edit. -->';

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
  ].join('\n')}\n`;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..');
  for (const [path, render] of Object.entries(PAGES)) {
    writeFileSync(join(root, path), render());
    console.log(`wrote ${path}`);
  }
}
