/** Things that must not be in the repository at all. */
import type { Files, Source } from './source.ts';
import { isTest, lineAt } from './source.ts';

/** Syntax that Node cannot erase, and tests that would silence the others. */
export function syntaxViolations(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, mask }) => [
    ...find(path, mask, ENUM, 'an enum'),
    ...find(path, mask, NAMESPACE, 'a namespace'),
    ...(isTest(path) || path.startsWith('test/') ? find(path, mask, ONLY, 'a test marked only') : []),
  ]);
}

const ENUM = /^\s*(?:export\s+)?(?:declare\s+)?(?:const\s+)?enum\s+\w+\s*\{/gm;
const NAMESPACE = /^\s*(?:export\s+)?(?:declare\s+)?(?:namespace|module)\s+[\w.]+\s*\{/gm;
const ONLY = /\b(?:test|it|describe|suite)\s*\.\s*only\b|\bonly\s*:\s*true\b/g;

/**
 * A path of the machine it was written on, or the host packages came from, works for nobody else; a merge that was
 * not finished, for nobody at all.
 */
export function textViolations(files: Files): string[] {
  return [...files].flatMap(([path, text]) => [
    ...find(path, text, ABSOLUTE_PATH, 'an absolute path'),
    ...find(path, text, path.endsWith('.npmrc') ? REGISTRY_LINE : REGISTRY_HOST, 'a registry host'),
    ...find(path, text, CONFLICT, 'what a merge has left'),
  ]);
}

// Put together from parts, so that this file does not hold what it forbids.
const MACHINE_FOLDERS = ['work', 'root', 'home', 'Users'].join('|');
const ABSOLUTE_PATH = new RegExp(String.raw`(?<![\w.}/~-])/(?:${MACHINE_FOLDERS})/[\w.-]`, 'g');
const REGISTRY_HOST = /"resolved":\s*"https?:|\bregistry\.[a-z0-9-]+\.(?:org|com|net|dev|cn)\b/g;
const REGISTRY_LINE = /^.*registry\s*=/gm;
const CONFLICT = /^(?:<{7}|>{7}) /gm;

const find = (path: string, text: string, pattern: RegExp, what: string): string[] =>
  [...text.matchAll(pattern)].map((match) => `${path}:${lineAt(text, match.index)}: holds ${what}`);
