/** Walks the schema: which keys there are, and where. */
import { IsObject, type TObject, type TSchema } from 'typebox';
import { ConfigSchema } from './schema.ts';

export type Path = readonly string[];

export interface Leaf {
  readonly path: Path;
  readonly schema: TSchema;
}

export function leavesOf(schema: TObject, path: Path = []): Leaf[] {
  return Object.entries(schema.properties).flatMap(([key, child]) =>
    IsObject(child) ? leavesOf(child, [...path, key]) : [{ path: [...path, key], schema: child }],
  );
}

/** Every key that holds a value, in the order of the schema. */
export const CONFIG_LEAVES: readonly Leaf[] = leavesOf(ConfigSchema);

export const isSection = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function valueAt(root: unknown, path: Path): unknown {
  let here = root;
  for (const key of path) {
    if (!isSection(here) || !Object.hasOwn(here, key)) return undefined;
    here = here[key];
  }
  return here;
}

/**
 * Sets a value and makes the sections on the way. A section left empty in YAML reads as null and counts as
 * empty; anything else that is not a section is left as it is, and validation names it.
 */
export function setAt(root: Record<string, unknown>, path: Path, value: unknown): void {
  let here = root;
  for (const key of path.slice(0, -1)) {
    const next = Object.hasOwn(here, key) ? here[key] : undefined;
    if (isSection(next)) {
      here = next;
      continue;
    }
    if (next !== undefined && next !== null) return;
    const made: Record<string, unknown> = {};
    here[key] = made;
    here = made;
  }
  here[path.at(-1)!] = value;
}
