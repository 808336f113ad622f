/** Phase 4: refuses unknown keys and wrong values; reports all of them, not the first. */
import { IsArray, IsObject, IsOptional, IsRecord, type TObject, type TSchema } from 'typebox';
import { Check } from 'typebox/value';
import { nearest } from '../kit/nearest.ts';
import { OWN_TYPES } from '../model/run-jobs.ts';
import { commandFaults } from './backends.ts';
import { seatFaults } from './gateway.ts';
import type { Issue } from './issues.ts';
import { CONFIG_LEAVES, isSection, type Path } from './leaves.ts';
import { ConfigSchema, type RawConfig } from './schema.ts';

export type Validated =
  | { readonly ok: true; readonly config: RawConfig }
  | { readonly ok: false; readonly issues: readonly Issue[] };

export function validateConfig(root: Record<string, unknown>): Validated {
  // Leaf by leaf rather than with the library's error list, which stops at eight errors.
  const issues = sectionIssues(ConfigSchema, root, []);
  if (issues.length > 0) return { ok: false, issues };
  if (!Check(ConfigSchema, root)) throw new Error('the walk over the schema missed a fault');
  const conflicts = conflictIssues(root);
  return conflicts.length > 0 ? { ok: false, issues: conflicts } : { ok: true, config: root };
}

function sectionIssues(schema: TObject, value: unknown, path: Path): Issue[] {
  if (!isSection(value)) {
    return [wrong(path, `expected a section of keys, found ${kindOf(value)}`)];
  }
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(value).filter((key) => !known.includes(key));
  return [
    ...unknown.map((key) => unknownKey([...path, key], known)),
    ...known.flatMap((key) => keyIssues(schema.properties[key]!, value, [...path, key])),
  ];
}

/** Keys with a default are filled in by now: what is missing has none. */
function keyIssues(schema: TSchema, section: Record<string, unknown>, path: Path): Issue[] {
  const key = path.at(-1)!;
  if (section[key] !== undefined || key in section) return valueIssues(schema, section[key], path);
  if (IsOptional(schema)) return [];
  return [wrong(path.slice(0, -1), `missing \`${key}\``)];
}

function valueIssues(schema: TSchema, value: unknown, path: Path): Issue[] {
  if (IsObject(schema)) return sectionIssues(schema, value, path);
  if (Check(schema, value)) return [];
  const inside = insideIssues(schema, value, path);
  if (inside.length > 0) return inside;
  const expected = describe(schema);
  const isOtherList = expected.startsWith('a list') && kindOf(value) === 'a list';
  const found = isOtherList ? 'a list of something else' : kindOf(value);
  return [wrong(path, `expected ${expected}, found ${found}${choiceHint(schema, value)}`)];
}

/** What is wrong with the items of a list, or with the sections of a map, each at its own place. */
function insideIssues(schema: TSchema, value: unknown, path: Path): Issue[] {
  if (IsArray(schema) && Array.isArray(value))
    return value.flatMap((each, at) => valueIssues(schema.items, each, [...path, `[${at}]`]));
  if (!IsRecord(schema) || !isSection(value)) return [];
  const [inner] = Object.values(schema.patternProperties);
  return Object.entries(value).flatMap(([key, each]) =>
    inner ? sectionIn(inner, each, [...path, key]) : [],
  );
}

const sectionIn = (schema: TSchema, value: unknown, path: Path): Issue[] =>
  IsObject(schema) ? sectionIssues(schema, value, path) : [];

const wrong = (path: Path, message: string): Issue => ({ path, message, at: 'value' });

function unknownKey(path: Path, siblings: readonly string[]): Issue {
  const key = path.at(-1)!;
  const elsewhere = CONFIG_LEAVES.find((leaf) => leaf.path.at(-1) === key)?.path.join('.');
  const hint = nearest(key, siblings) ?? elsewhere;
  const message = hint === undefined ? 'unknown key' : `unknown key; did you mean ${hint}?`;
  return { path, message, at: 'key' };
}

/** Rules between keys; checked only when each key is right by itself. */
function conflictIssues({ orchestrator: { queue, retry }, gateway, backends }: RawConfig): Issue[] {
  const faults = [...seatFaults(gateway), ...commandFaults(backends)];
  const issues: Issue[] = faults.map(({ path, message }) => wrong(path, message));
  issues.push(
    ...ownTypeIssues(
      'commands',
      backends.commands.map(({ types }) => Object.keys(types)),
    ),
  );
  issues.push(
    ...ownTypeIssues(
      'spools',
      backends.spools.map(({ types = [] }) => types),
    ),
  );
  if (retry.max_delay_ms < retry.base_delay_ms) {
    const path = ['orchestrator', 'retry', 'max_delay_ms'];
    issues.push(wrong(path, `may not be less than base_delay_ms (${retry.base_delay_ms})`));
  }
  if (queue.max_payload_bytes > queue.capacity_bytes) {
    const path = ['orchestrator', 'queue', 'max_payload_bytes'];
    issues.push(wrong(path, `may not be more than capacity_bytes (${queue.capacity_bytes})`));
  }
  return issues;
}

/** A backend that took such jobs would answer in the place of an agent, of a tool, or of the person who allows a call. */
const ownTypeIssues = (kind: 'commands' | 'spools', typesOfEach: readonly (readonly string[])[]): Issue[] =>
  typesOfEach.flatMap((types, at) =>
    OWN_TYPES.filter((type) => types.includes(type)).map((type) =>
      wrong(
        ['backends', kind, `[${at}]`, 'types', type],
        `jobs of type ${type} belong to the runs of agents: choose another name`,
      ),
    ),
  );

interface SchemaFacts {
  readonly expected?: string;
  readonly enum?: readonly string[];
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

function describe(schema: TSchema): string {
  const facts = schema as SchemaFacts;
  if (facts.expected !== undefined) return facts.expected;
  if (facts.enum !== undefined) return `one of ${facts.enum.join(', ')}`;
  if (facts.type === 'boolean') return 'true or false';
  if (facts.type === 'string') return 'a text';
  if (facts.type === 'array') return 'a list';
  if (facts.type === 'object') return 'a section of keys';
  const noun = facts.type === 'integer' ? 'a whole number' : 'a number';
  if (facts.maximum === Number.MAX_SAFE_INTEGER) return `${noun} of at least ${facts.minimum}`;
  return `${noun} from ${facts.minimum} to ${facts.maximum}`;
}

function choiceHint(schema: TSchema, value: unknown): string {
  const choices = (schema as SchemaFacts).enum;
  if (choices === undefined || typeof value !== 'string') return '';
  const hint = nearest(value, choices);
  return hint === undefined ? '' : `; did you mean ${hint}?`;
}

/** Numbers are shown; texts are not, since a secret may have been pasted into the wrong line. */
function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'string') return value === '' ? 'an empty text' : 'another text';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'a section';
}
