/** Decisions are cited where they act: a citation names a decision that exists, and src cites every decision. */
import type { Files } from './source.ts';

const DECISION = /^docs\/decisions\/(\d{4})-[^/]+\.md$/;
const CITING = /^(?:src|test|docs|scripts)\/|^[^/]+\.md$/;
const CITATION = /\bdecisions\/(\d{4})\b|\bdecision (\d{1,4})\b/gi;

export function decisionViolations(files: Files): string[] {
  const decisions = [...files.keys()].flatMap((path) => DECISION.exec(path)?.[1] ?? []);
  const citations = [...files].filter(([path]) => CITING.test(path)).flatMap(citationsOf);
  const missing = citations.filter(({ number }) => !decisions.includes(number));
  const cited = new Set(citations.filter(({ path }) => path.startsWith('src/')).map(({ number }) => number));
  return [
    ...missing.map(
      ({ path, line, number }) => `${path}:${line}: cites decision ${number}, which does not exist`,
    ),
    ...decisions
      .filter((number) => !cited.has(number))
      .map((number) => `decision ${number} is cited nowhere in src`),
  ];
}

interface Citation {
  readonly path: string;
  readonly line: number;
  readonly number: string;
}

function citationsOf([path, text]: readonly [path: string, text: string]): Citation[] {
  return text.split('\n').flatMap((line, index) =>
    [...line.matchAll(CITATION)].map((match) => ({
      path,
      line: index + 1,
      number: (match[1] ?? match[2] ?? '').padStart(4, '0'),
    })),
  );
}
