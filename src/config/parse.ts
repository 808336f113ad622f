/** Phase 1: YAML text to plain values, keeping where each of them stands. */
import {
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isSeq,
  LineCounter,
  type Pair,
  parseDocument,
  visit,
} from 'yaml';
import type { PlacedIssue } from './issues.ts';
import { isSection, type Path } from './leaves.ts';

export interface Parsed {
  readonly root: Record<string, unknown>;
  /** Place of a key or of its value, e.g. `config.yaml:3:5`. */
  locate(path: Path, at: 'key' | 'value'): string;
  readonly issues: readonly PlacedIssue[];
}

/** In place of what the parser says where that would quote the file: a secret may stand in any line. */
const OWN_WORDS: Partial<Record<ErrorCode, string>> = {
  BAD_DIRECTIVE: 'a line that begins with % is not understood',
  BAD_DQ_ESCAPE: 'a text in double quotes has an escape that does not exist',
  IMPOSSIBLE: 'this cannot be read',
  MULTIPLE_DOCS: 'the file may hold one document only',
  RESOURCE_EXHAUSTION: 'this is nested too deeply',
  TAG_RESOLVE_FAILED: 'a tag that is not known; a text that begins with ! needs quotes',
  UNEXPECTED_TOKEN: 'this cannot stand here; a text with signs in it may need quotes',
};

export const NO_FILE: Parsed = { root: {}, locate: () => 'defaults', issues: [] };

export function parseConfig(text: string, label: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${label}:${line}:${col}`;
  };
  const locate: Parsed['locate'] = (path, at) => place(offsetOf(document, path, at));
  const faults = [...document.errors, ...document.warnings];
  if (faults.length > 0) {
    const issues = faults.map((fault) => ({
      position: place(fault.pos[0]),
      field: '',
      message: OWN_WORDS[fault.code] ?? fault.message,
    }));
    return { root: {}, locate, issues };
  }
  const cycle = ownAlias(document);
  if (cycle !== undefined) {
    const message = 'an alias stands inside of what it repeats, so it would have no end';
    return { root: {}, locate, issues: [{ position: place(cycle), field: '', message }] };
  }
  return { ...plainRoot(document, place(0)), locate };
}

/**
 * Offset of the first alias whose anchor is around it, if there is one. An alias can only name an anchor before it, so
 * there is no other way to a cycle.
 */
function ownAlias(document: Document): number | undefined {
  let found: number | undefined;
  visit(document, {
    Alias(_, alias, path) {
      const repeated = alias.resolve(document);
      if (repeated === undefined || !path.includes(repeated)) return undefined;
      found = startOf(alias) ?? 0;
      return visit.BREAK;
    },
  });
  return found;
}

function plainRoot(document: Document, start: string): Pick<Parsed, 'root' | 'issues'> {
  const refuse = (message: string) => ({ root: {}, issues: [{ position: start, field: '', message }] });
  let value: unknown;
  try {
    value = document.toJS();
  } catch {
    // The parser refuses aliases that multiply: a small file must not become a large object.
    return refuse('too many aliases');
  }
  if (value === null || value === undefined) return { root: {}, issues: [] };
  if (!isSection(value)) return refuse('expected keys such as orchestrator: or pool: at the top');
  return { root: value, issues: [] };
}

/** Offset of the deepest part of the path that the text has; a value that is left empty counts as its key. */
function offsetOf(document: Document, path: Path, at: 'key' | 'value'): number {
  let node: unknown = document.contents;
  let offset = 0;
  for (const [depth, key] of path.entries()) {
    const container = isAlias(node) ? node.resolve(document) : node;
    if (isSeq(container)) {
      node = container.items[Number(key.slice(1, -1))];
      offset = startOf(node) ?? offset;
      continue;
    }
    if (!isMap(container)) return offset;
    const pair = container.items.find((item) => keyText(item) === key);
    if (pair === undefined) return offset;
    offset = startOf(pair.key) ?? offset;
    node = pair.value;
    const last = depth === path.length - 1;
    if (last && at === 'value' && !isEmpty(node)) offset = startOf(node) ?? offset;
  }
  return offset;
}

const keyText = ({ key }: Pair): string => String((key as { value?: unknown } | null)?.value);

const startOf = (node: unknown): number | undefined => (node as { range?: [number] } | null)?.range?.[0];

const isEmpty = (node: unknown): boolean => {
  const range = (node as { range?: [number, number] } | null)?.range;
  return range === undefined || range[0] === range[1];
};
