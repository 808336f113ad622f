/** docs/requirements.md: which tests name a requirement. Ids stand in the titles of tests: `[ORCH-1072] an explicit …`. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Node, syntaxOf } from '../../test/architecture/syntax.ts';

const root = join(import.meta.dirname, '..', '..');

const ID = /\[([A-Z]{3,}-\d+(?:\.\d+)*)\]/g;

export interface NamedPromise {
  readonly id: string;
  /** The title without its ids, after the titles of the groups it stands in; `…` for what is computed. */
  readonly promise: string;
  readonly file: string;
}

/** Every title of one file that names a requirement, once per id. */
export function promisesOf(file: string, text: string): NamedPromise[] {
  if (text.search(ID) < 0) return [];
  const { nodes } = syntaxOf(text);
  const parents = new Map(nodes.map(({ node, parent }) => [node, parent]));
  return nodes.flatMap(({ node }) => {
    const title = titleOf(node);
    const ids = [...title.matchAll(ID)].map((match) => match[1]!);
    if (ids.length === 0) return [];
    const promise = [...groupsOf(node, parents), title].join(': ').replaceAll(ID, '').trim();
    return ids.map((id) => ({ id, promise: promise.replaceAll(/ {2,}/g, ' '), file }));
  });
}

/** The titles of the calls around a call, the outermost first. */
function groupsOf(call: Node, parents: ReadonlyMap<Node, Node | undefined>): string[] {
  const groups: string[] = [];
  for (let at = parents.get(call); at; at = parents.get(at)) groups.unshift(titleOf(at));
  return groups.filter((title) => title !== '');
}

/** The first argument of a call that is given a title and a function; empty for everything else. */
function titleOf(call: Node): string {
  if (call.type !== 'CallExpression' || !call.arguments.slice(1).some(isFunction)) return '';
  const [node] = call.arguments;
  if (node?.type === 'StringLiteral') return node.value;
  if (node?.type !== 'TemplateLiteral') return '';
  return node.quasis.map(({ value }) => value.cooked ?? '').join('…');
}

const isFunction = ({ type }: Node): boolean =>
  type === 'ArrowFunctionExpression' || type === 'FunctionExpression';

export function renderRequirements(generated: string): string {
  const files = globSync('{src,test}/**/*.test.ts', { cwd: root }).sort();
  const promises = files.flatMap((file) => promisesOf(file, readFileSync(join(root, file), 'utf8')));
  promises.sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
  const rows = promises.map(({ id, promise, file }) => {
    const cells = [id, promise.replaceAll('|', '\\|').replaceAll('<', '&lt;'), `[${file}](../${file})`];
    return `| ${cells.join(' | ')} |`;
  });
  return `${[
    generated,
    '',
    '# Requirements',
    '',
    'Each requirement that a test names, with the promise that the test states; `…` stands for a part of the title that',
    'is computed, such as the name of a store. Most tests state a promise without naming a requirement.',
    '',
    '| id | promise | test |',
    '| --- | --- | --- |',
    ...rows,
  ].join('\n')}\n`;
}
