/**
 * The command line writes through its terminal port, src/cli/terminal.ts, which makes text harmless; a daemon's log goes
 * through src/cli/daemon.ts. Nothing else in src/cli reaches a stream.
 */
import { productSources, type Source } from './source.ts';
import { isMemberName, nameOf, ownerOf, type VisitedNode } from './syntax.ts';

const CLI = /^src\/cli\//;
/** Hands the streams to the port. */
const MAIN = 'src/cli/main.ts';
const DAEMON = 'src/cli/daemon.ts';

export function terminalViolations(sources: readonly Source[]): string[] {
  return productSources(sources)
    .filter(({ path }) => CLI.test(path))
    .flatMap(({ path, nodes, imports }) => [
      ...nodes
        .filter((visited) => isStream(visited, path))
        .map(({ line }) => `${path}:${line}: writes past the terminal port`),
      ...imports
        .filter(({ target }) => path !== DAEMON && target === 'src/kit/env/line-output.ts')
        .map(({ line }) => `${path}:${line}: writes past the terminal port`),
    ]);
}

function isStream(visited: VisitedNode, path: string): boolean {
  const { node, parent } = visited;
  if (node.type === 'Identifier' && node.name === 'console') return !isMemberName(visited);
  const owner = ownerOf(node);
  if (owner === undefined || nameOf(owner) !== 'process') return false;
  if (!['stdout', 'stderr'].includes(nameOf(node) ?? '')) return false;
  const asksOnly = parent !== undefined && nameOf(parent) === 'isTTY';
  return path !== MAIN && !(path === DAEMON && asksOnly);
}
