/**
 * The syntax tree of a TypeScript file as a flat list: each node with its parent, parents first.
 * A rule filters that list and needs no walk of its own.
 */
import { type ParserOptions, parse } from '@babel/parser';
import type { Node } from '@babel/types';

export type { Node };

export interface VisitedNode {
  readonly node: Node;
  readonly parent: Node | undefined;
  /** Line the node starts at; the first line of a file is 1. */
  readonly line: number;
}

export interface Syntax {
  /** Empty where the file cannot be parsed. */
  readonly nodes: readonly VisitedNode[];
  readonly parseError: { readonly line: number; readonly message: string } | undefined;
}

const OPTIONS: ParserOptions = { sourceType: 'module', plugins: ['typescript'], attachComment: false };

export function syntaxOf(text: string): Syntax {
  try {
    const nodes: VisitedNode[] = [];
    collect(parse(text, OPTIONS).program, undefined, nodes);
    return { nodes, parseError: undefined };
  } catch (error) {
    const { message, loc } = error as Error & { loc?: { line: number } };
    return { nodes: [], parseError: { line: loc?.line ?? 1, message } };
  }
}

function collect(node: Node, parent: Node | undefined, nodes: VisitedNode[]): void {
  nodes.push({ node, parent, line: node.loc!.start.line });
  for (const value of Object.values(node)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (isNode(each)) collect(each, node, nodes);
    }
  }
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';

/** The text of a string, or of a template without `${…}`. */
export function literalText(node: Node | null | undefined): string | undefined {
  if (node?.type === 'StringLiteral') return node.value;
  if (node?.type !== 'TemplateLiteral' || node.expressions.length > 0) return undefined;
  return node.quasis[0]?.value.cooked ?? undefined;
}

/** The name of `a`, of `#a`, and of what `x.a`, `x.#a`, `x['a']` or, in a type, `typeof x.a` end in. */
export function nameOf(node: Node): string | undefined {
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'PrivateName') return node.id.name;
  if (node.type === 'TSQualifiedName') return node.right.name;
  if (node.type !== 'MemberExpression' && node.type !== 'OptionalMemberExpression') return undefined;
  return node.computed ? literalText(node.property) : nameOf(node.property);
}

/** Returns `x` of `x.a`. */
export function ownerOf(node: Node): Node | undefined {
  if (node.type === 'MemberExpression' || node.type === 'OptionalMemberExpression') return node.object;
  return node.type === 'TSQualifiedName' ? node.left : undefined;
}

/** Identifiers that only name a member: what follows a dot, a key of an object, class or type, a name imported. */
export function isMemberName({ node, parent }: VisitedNode): boolean {
  if (parent === undefined || node.type !== 'Identifier') return false;
  if (parent.type === 'PrivateName') return true;
  if (parent.type === 'TSQualifiedName') return parent.right === node;
  if (parent.type === 'ImportSpecifier') return parent.imported === node;
  if ('computed' in parent && parent.computed === true) return false;
  return ('key' in parent && parent.key === node) || ('property' in parent && parent.property === node);
}
