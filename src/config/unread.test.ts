/** A setting that nothing reads has no effect: every leaf of the resolved configuration is read somewhere in src. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { ObjectPattern } from '@babel/types';
import { productSources, readFiles, type Source, sourcesOf } from '../../test/architecture/source.ts';
import { type Node, nameOf, ownerOf, type VisitedNode } from '../../test/architecture/syntax.ts';
import { Secret } from '../kit/secret.ts';
import { applyDefaults } from './defaults.ts';
import { CONFIG_LEAVES, isSection } from './leaves.ts';
import { defaultConfig } from './load.ts';
import { resolveConfig } from './resolve.ts';
import type { RawConfig } from './schema.ts';

const ROOT = join(import.meta.dirname, '../..');

/** `section.leaf` of everything in the resolved configuration; a section that is a list is one leaf. */
function leaves(): string[] {
  return Object.entries(defaultConfig()).flatMap(([section, value]) =>
    Array.isArray(value) || value instanceof Secret
      ? [section]
      : Object.keys(value).map((leaf) => `${section}.${leaf}`),
  );
}

type Parents = ReadonlyMap<Node, Node | undefined>;

/** The key of a property in a pattern such as `{ key: name }`, and the name of what is taken apart by it. */
function destructured(
  { node, parent }: VisitedNode,
  parents: Parents,
): [owner: string, key: string] | undefined {
  if (node.type !== 'ObjectProperty' || parent?.type !== 'ObjectPattern') return undefined;
  return [ownerOfPattern(parent, parents), nameOf(node.key) ?? ''];
}

function ownerOfPattern(pattern: ObjectPattern, parents: Parents): string {
  const annotation =
    pattern.typeAnnotation?.type === 'TSTypeAnnotation' && pattern.typeAnnotation.typeAnnotation;
  if (annotation && annotation.type === 'TSTypeReference' && nameOf(annotation.typeName) === 'ResolvedConfig')
    return 'config';
  const above = parents.get(pattern);
  if (above?.type === 'VariableDeclarator' && above.init) return nameOf(above.init) ?? '';
  return above?.type === 'ObjectProperty' ? (nameOf(above.key) ?? '') : '';
}

/** What one file does with properties of objects. */
class FileReads {
  readonly #nodes: readonly VisitedNode[];
  readonly #parents: Parents;
  /** Names that the file has taken out of a configuration: sections of it. */
  readonly #sections: ReadonlySet<string>;

  constructor({ nodes }: Source) {
    this.#nodes = nodes;
    this.#parents = new Map(nodes.map(({ node, parent }) => [node, parent]));
    this.#sections = new Set(
      nodes.flatMap((visited) => {
        const [owner, key] = destructured(visited, this.#parents) ?? [];
        return owner === 'config' && key !== undefined ? [key] : [];
      }),
    );
  }

  /** The name of a section, where the node is one: `config.pools`, or `pools` that was taken out of it. */
  #sectionOf(node: Node): string | undefined {
    const owner = ownerOf(node);
    const name = nameOf(node);
    if (owner) return nameOf(owner) === 'config' ? name : undefined;
    return name !== undefined && this.#sections.has(name) ? name : undefined;
  }

  /** The name of every property that is read, of whatever object. */
  *names(): Generator<string> {
    for (const visited of this.#nodes) {
      const name = ownerOf(visited.node) ? nameOf(visited.node) : destructured(visited, this.#parents)?.[1];
      if (name !== undefined) yield name;
    }
  }

  /** `section.leaf` of every property of a section that is read. */
  *leaves(): Generator<string> {
    for (const visited of this.#nodes) {
      const owner = ownerOf(visited.node);
      const section = owner && this.#sectionOf(owner);
      if (section !== undefined) yield `${section}.${nameOf(visited.node)}`;
      const [from, key] = destructured(visited, this.#parents) ?? [];
      if (key !== undefined) yield `${from}.${key}`;
    }
  }

  /** Sections that are read by the name in a variable, `backends[key]`, which reads all of their leaves. */
  *lookedInto(): Generator<string> {
    for (const { node } of this.#nodes) {
      const section = node.type === 'MemberExpression' && node.computed && this.#sectionOf(node.object);
      if (section) yield section;
    }
  }

  /** Sections that are handed on as a whole: spread, passed to a call, or put into an object. */
  *handedOn(): Generator<string> {
    for (const { node, parent } of this.#nodes) {
      const section = this.#sectionOf(node);
      if (section === undefined || parent === undefined) continue;
      const isArgument = parent.type === 'CallExpression' || parent.type === 'NewExpression';
      const isValue = parent.type === 'ObjectProperty' && parent.value === node;
      if (
        parent.type === 'SpreadElement' ||
        (isArgument && parent.callee !== node) ||
        (isValue && this.#parents.get(parent)?.type === 'ObjectExpression')
      )
        yield section;
    }
  }
}

function unread(sources: readonly Source[]): string[] {
  const outside = productSources(sources).filter(({ path }) => !path.startsWith('src/config/'));
  const files = outside.map((source) => new FileReads(source));
  const anywhere = new Set(files.flatMap((file) => [...file.names()]));
  const read = new Set(files.flatMap((file) => [...file.leaves()]));
  const lookedInto = new Set(files.flatMap((file) => [...file.lookedInto()]));
  const handedOn = new Set(files.flatMap((file) => [...file.handedOn()]));
  return leaves().filter((path) => {
    const [section = '', leaf] = path.split('.');
    if (leaf === undefined) return !handedOn.has(section);
    // A section that is handed on as a whole has another name where its leaves are read.
    const isPassed = handedOn.has(section) && anywhere.has(leaf);
    return !read.has(path) && !isPassed && !lookedInto.has(section);
  });
}

test('every setting is read by something', () => {
  assert.ok(leaves().length > 50);
  assert.deepEqual(unread(sourcesOf(readFiles(ROOT))).toSorted(), []);
});

/** A copy of a section that records the path of every key that is read. */
function recorded(section: object, read: Set<string>, path = ''): object {
  return new Proxy(section, {
    get: (target, key, receiver) => {
      const value: unknown = Reflect.get(target, key, receiver);
      if (typeof key !== 'string' || !Object.hasOwn(target, key)) return value;
      const here = path === '' ? key : `${path}.${key}`;
      read.add(here);
      return isSection(value) ? recorded(value, read, here) : value;
    },
  });
}

test('every key of the schema becomes a part of the resolved configuration', () => {
  const raw: Record<string, unknown> = {};
  applyDefaults(raw);
  const read = new Set<string>();
  resolveConfig(recorded(raw, read) as RawConfig);
  // The section of the backends is handed on as a whole, to the registry of backends.
  const forgotten = CONFIG_LEAVES.map(({ path }) => path.join('.')).filter(
    (path) => !path.startsWith('backends.') && !read.has(path),
  );
  assert.ok(CONFIG_LEAVES.length > 50 && read.has('backends'));
  assert.deepEqual(forgotten, []);
});

test('a setting that is only named, written or shadowed is not read', () => {
  const config = (text: string): Source[] => [
    ...sourcesOf(
      new Map([['src/app/a.ts', `import type { ResolvedConfig } from '../config/resolve.ts';\n${text}`]]),
    ),
  ];
  const isUnread = (text: string): boolean => unread(config(text)).includes('log.level');
  assert.ok(isUnread('const level = 1; const log = { level };'));
  assert.ok(isUnread('const { log } = config; other.level();'));
  assert.ok(!isUnread('const { log } = config; use(log.level);'));
  assert.ok(!isUnread('const { level } = config.log;'));
  assert.ok(!isUnread('const { log: { level } } = config;'));
  assert.ok(!isUnread('const all = { ...config.log }; const { level } = all;'));
});
