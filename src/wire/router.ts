/**
 * Finds the route of a request by its path: a fixed path with one lookup, a path with parameters segment by segment.
 * Segments are decoded before they are compared, so that `%74asks` matches `tasks`; a slash that is encoded (`%2f`) separates
 * no segments, and can only be part of a parameter.
 */
import { OrchdError } from '../model/errors.ts';
import type { Route } from './route.ts';

/** A path with a longer parameter matches no route: no id of ours is that long. */
const MAX_PARAMETER_CHARS = 300;

export type PathParameters = Readonly<Record<string, string>>;

/** The routes of one path by method, and the values of its parameters. */
export interface PathMatch {
  readonly routes: ReadonlyMap<string, Route>;
  readonly params: PathParameters;
}

interface PathPattern {
  readonly segments: readonly string[];
  readonly routes: Map<string, Route>;
}

const NO_PARAMETERS: PathParameters = Object.freeze({});

export class Router {
  readonly #fixed = new Map<string, PathMatch & { readonly routes: Map<string, Route> }>();
  readonly #patterns = new Map<string, PathPattern>();

  constructor(routes: readonly Route[]) {
    for (const route of routes) this.#routesOf(route.path).set(route.method, route);
  }

  /** The routes of a path (without query); undefined if no route has this path. Throws INVALID_PARAMS for a wrong encoding. */
  find(path: string): PathMatch | undefined {
    const fixed = this.#fixed.get(path);
    if (fixed) return fixed;
    const given = path.split('/').map(decoded);
    const hasSlash = given.some((segment) => segment.includes('/'));
    return (hasSlash ? undefined : this.#fixed.get(given.join('/'))) ?? this.#matching(given);
  }

  /** The same without a throw: a path that cannot be decoded has no routes. */
  findReadable(path: string): PathMatch | undefined {
    try {
      return this.find(path);
    } catch (error) {
      if (error instanceof OrchdError) return undefined;
      throw error;
    }
  }

  #matching(given: readonly string[]): PathMatch | undefined {
    for (const { segments, routes } of this.#patterns.values()) {
      const params = parametersOf(segments, given);
      if (params) return { routes, params };
    }
    return undefined;
  }

  #routesOf(path: string): Map<string, Route> {
    if (!path.includes(':')) {
      const entry = this.#fixed.get(path) ?? { routes: new Map<string, Route>(), params: NO_PARAMETERS };
      this.#fixed.set(path, entry);
      return entry.routes;
    }
    const pattern = this.#patterns.get(path) ?? { segments: path.split('/'), routes: new Map() };
    this.#patterns.set(path, pattern);
    return pattern.routes;
  }
}

function parametersOf(pattern: readonly string[], given: readonly string[]): PathParameters | undefined {
  if (pattern.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, segment] of pattern.entries()) {
    const value = given[at] ?? '';
    if (!segment.startsWith(':')) {
      if (segment !== value) return undefined;
    } else if (value === '' || value.length > MAX_PARAMETER_CHARS) return undefined;
    else params[segment.slice(1)] = value;
  }
  return params;
}

function decoded(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new OrchdError('INVALID_PARAMS', 'the path has an invalid percent-encoding');
  }
}
