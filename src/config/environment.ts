/** Phase 2: `ORCHD_` variables override keys of the file. The names are made from the schema's own paths. */
import type { TSchema } from 'typebox';
import { nearest } from '../kit/nearest.ts';
import { splitList } from './address.ts';
import { CONFIG_LEAVES, type Leaf, type Path, setAt } from './leaves.ts';
import { type Environment, isOtherVariable, OTHER_VARIABLES, PREFIX } from './variables.ts';

/** `orchestrator.queue_capacity` → `ORCHD_ORCHESTRATOR_QUEUE_CAPACITY`. */
export const variableName = (path: Path): string => PREFIX + path.join('_').toUpperCase();

// Keys contain underscores themselves, so a name is not split: it is looked up among all that can be made.
const LEAF_BY_VARIABLE: ReadonlyMap<string, Leaf> = new Map(
  CONFIG_LEAVES.map((leaf) => [variableName(leaf.path), leaf]),
);

export interface Overrides {
  /** Variable that set a key, by `a.b.c`. */
  readonly setBy: ReadonlyMap<string, string>;
  /** One sentence for each variable that has the prefix but sets nothing. */
  readonly warnings: readonly string[];
}

export function applyEnvironment(root: Record<string, unknown>, env: Environment): Overrides {
  const setBy = new Map<string, string>();
  const warnings: string[] = [];
  for (const name of Object.keys(env).sort()) {
    const text = env[name];
    if (text === undefined || !name.startsWith(PREFIX)) continue;
    const leaf = LEAF_BY_VARIABLE.get(name);
    if (leaf === undefined) {
      // Not refused: the variables of a process are often set by others, for other programs.
      if (!isOtherVariable(name, text)) warnings.push(unknownVariable(name, text));
      continue;
    }
    setAt(root, leaf.path, typedValue(text, leaf.schema));
    setBy.set(leaf.path.join('.'), name);
  }
  return { setBy, warnings };
}

function unknownVariable(name: string, text: string): string {
  return `${name} is not a variable of orchd and has no effect${addressHint(name, text) ?? nameHint(name)}`;
}

/** Names that other servers have for the address on which they listen. */
const ADDRESS_NAMES = /^ORCHD_(?:SERVER_)?(?:PORT|HOST|BIND|BIND_ADDR|BIND_ADDRESS|ADDRESS|ADDR|LISTEN)$/;

function addressHint(name: string, text: string): string | undefined {
  if (!ADDRESS_NAMES.test(name)) return undefined;
  // Of the value only a port is repeated: anything else may be a secret that was pasted into the wrong line.
  const port = name.endsWith('PORT') && /^\d{1,5}$/.test(text.trim()) ? text.trim() : undefined;
  const example = `127.0.0.1:${port ?? '8080'}`;
  const option = port === undefined ? '--host and --port' : `--port ${port}`;
  return `; the address is set by ${variableName(['orchestrator', 'bind_addr'])}=${example}, or by ${option}`;
}

function nameHint(name: string): string {
  // The sections of a key are easily forgotten, as in `QUEUE_CAPACITY` for `ORCHESTRATOR_QUEUE_CAPACITY`.
  const last = name.slice(PREFIX.length - 1);
  const longer = [...LEAF_BY_VARIABLE.keys()].filter((known) => known.endsWith(last));
  const [only] = longer.length === 1 ? longer : [];
  const hint = only ?? nearest(name, [...LEAF_BY_VARIABLE.keys(), ...OTHER_VARIABLES]);
  return hint === undefined ? '' : `; did you mean ${hint}?`;
}

/** Text that does not have the form its key wants stays text: validation then says what is expected. */
function typedValue(text: string, schema: TSchema): unknown {
  const { type, list } = schema as { type?: string; list?: boolean };
  const trimmed = text.trim();
  if (list === true) return splitList(text);
  if (type === 'array') return jsonOr(text);
  if (type === 'boolean') return trimmed === 'true' ? true : trimmed === 'false' ? false : text;
  if (type === 'integer' || type === 'number') {
    return /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(trimmed) ? Number(trimmed) : text;
  }
  return trimmed;
}

/** A list of sections has no plainer form in a variable than JSON. */
function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
