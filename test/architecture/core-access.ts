/**
 * The insides of core (its state, engine, entries and turns) are for core and runtime alone. Everybody else knows
 * the ports and reads through runtime, which answers with what is durable.
 */
import { CORE_PUBLIC } from './layout.ts';
import { productSources, type Source } from './source.ts';
import { type Node, nameOf, ownerOf } from './syntax.ts';

const CORE = 'src/core/';
const RUNTIME = 'src/runtime/';
/** Suites that stores and backends run: they are test code, though no file of theirs is a test of its own. */
const CONFORMANCE = /^src\/[^/]+\/conformance\//;

const isInside = (target: string): boolean => target.startsWith(CORE) && !CORE_PUBLIC.includes(target);

export function coreAccessViolations(sources: readonly Source[]): string[] {
  const others = productSources(sources).filter(
    ({ path }) => !path.startsWith(CORE) && !CONFORMANCE.test(path),
  );
  return others.flatMap((source) => {
    if (source.path.startsWith(RUNTIME)) return reexportedInsides(source);
    return [...importedInsides(source), ...engineAccess(source)];
  });
}

function importedInsides({ path, imports }: Source): string[] {
  return imports
    .filter(({ target }) => isInside(target))
    .map(({ target, line }) => `${path}:${line}: imports ${target}, which is for core and runtime alone`);
}

/** `export … from` in runtime would let everybody import an inside of core from there. */
function reexportedInsides({ path, imports }: Source): string[] {
  return imports
    .filter(({ target, reexported }) => reexported && isInside(target))
    .map(({ target, line }) => `${path}:${line}: re-exports ${target}, which is for core and runtime alone`);
}

function engineAccess({ path, nodes }: Source): string[] {
  return nodes
    .filter(({ node }) => readsEngine(node))
    .map(({ line }) => `${path}:${line}: reaches into the engine, which is for core and runtime alone`);
}

/** `orchestrator.engine` and, wherever that engine comes from, `engine.state`; also when taken apart by `{ … }`. */
function readsEngine(node: Node): boolean {
  if (node.type !== 'VariableDeclarator') return isEngineRead(nameOf(node), ownerOf(node));
  if (node.id.type !== 'ObjectPattern') return false;
  return node.id.properties.some(
    (each) => each.type === 'ObjectProperty' && isEngineRead(nameOf(each.key), node.init),
  );
}

function isEngineRead(name: string | undefined, owner: Node | null | undefined): boolean {
  if (owner == null) return false;
  if (name === 'engine') return isOrchestrator(owner);
  // An engine that is reached through the orchestrator is reported by the rule for `.engine` already.
  return name === 'state' && nameOf(owner) === 'engine' && !isOrchestrator(ownerOf(owner));
}

const isOrchestrator = (node: Node | null | undefined): boolean =>
  node != null && /orchestrator$/i.test(nameOf(node) ?? '');
