/**
 * References to models:
 *   hf:{org}/{repo}[@{rev}][::file={path}]   a repository of the Hugging Face hub
 *   file:/absolute/path.gguf                 a file on the machine of the worker
 *   demo:NAME, openai:NAME                   a model that an engine has without a file
 *   anything else                            an alias
 * References end up in paths and on command lines, so characters with a special meaning there are refused.
 */
import { OrchdError } from './errors.ts';

export interface HfRef {
  readonly kind: 'hf';
  readonly org: string;
  readonly repo: string;
  readonly rev?: string;
  readonly file?: string;
}

export type ModelRef =
  | HfRef
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'engine'; readonly scheme: 'demo' | 'openai'; readonly name: string }
  | { readonly kind: 'alias'; readonly name: string };

const MAX_REF_CHARS = 1024;
const MAX_PART_CHARS = 255;

/** An organisation, repository, folder or file. It cannot begin with a dot or a dash: no hidden file, no option. */
const PART = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
/** Names of engine models and aliases, in which slashes and colons are common. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._+:/@-]*$/;
/** Control characters and line separators. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

export function parseModelRef(text: string): ModelRef {
  if (text === '' || text.length > MAX_REF_CHARS)
    throw invalidRef(`must have 1 to ${MAX_REF_CHARS} characters`);
  if (CONTROL.test(text) || !text.isWellFormed()) throw invalidRef('must not contain control characters');
  if (text.includes('\\')) throw invalidRef('must not contain a backslash');
  if (text.includes('%')) throw invalidRef('must not contain "%" or encoded characters');
  const [scheme, rest] = split(text, ':');
  if (rest === undefined) return { kind: 'alias', name: checkName(text, 'an alias') };
  if (scheme === 'hf') return hubRef(rest);
  if (scheme === 'file') return { kind: 'file', path: absolute(rest) };
  if (scheme === 'demo' || scheme === 'openai') {
    return { kind: 'engine', scheme, name: checkName(rest, `a name after ${scheme}:`) };
  }
  return { kind: 'alias', name: checkName(text, 'an alias') };
}

/** The canonical text of a reference. */
export function formatModelRef(ref: ModelRef): string {
  if (ref.kind === 'alias') return ref.name;
  if (ref.kind === 'file') return `file:${ref.path}`;
  if (ref.kind === 'engine') return `${ref.scheme}:${ref.name}`;
  const rev = ref.rev === undefined ? '' : `@${ref.rev}`;
  const file = ref.file === undefined ? '' : `::file=${ref.file}`;
  return `hf:${ref.org}/${ref.repo}${rev}${file}`;
}

function hubRef(text: string): HfRef {
  const [head, option] = split(text, '::');
  if (option !== undefined && !option.startsWith('file='))
    throw invalidRef('must have nothing but file={path} after "::"');
  const [path, rev] = split(head, '@');
  const parts = path.split('/');
  if (parts.length !== 2) throw invalidRef('must have the form hf:{org}/{repo}');
  const [org, repo] = parts.map((part) => checkPart(part, 'the name of a repository')) as [string, string];
  // The cache folder of a repository is named `org--repo`, so the separator may not occur in the parts.
  if (org.includes('--') || repo.includes('--')) throw invalidRef('must not contain "--" in org or repo');
  const file = option?.slice('file='.length);
  return {
    kind: 'hf',
    org,
    repo,
    ...(rev !== undefined && { rev: relative(rev, 'a revision') }),
    ...(file !== undefined && { file: relative(file, 'the path of a file') }),
  };
}

const relative = (text: string, what: string): string =>
  text
    .split('/')
    .map((part) => checkPart(part, what))
    .join('/');

function absolute(path: string): string {
  if (!path.startsWith('/')) throw invalidRef('must have an absolute path after file:');
  for (const part of path.slice(1).split('/')) {
    if (part === '' || part === '.' || part === '..')
      throw invalidRef('must not contain "//", "/./" or "/../" in its path');
    if (part.length > MAX_PART_CHARS)
      throw invalidRef(`must not contain a folder or file name of more than ${MAX_PART_CHARS} characters`);
  }
  return path;
}

function checkPart(part: string, what: string): string {
  if (part.length <= MAX_PART_CHARS && PART.test(part) && !part.includes('..')) return part;
  throw invalidRef(`must not contain an empty part or a character that is not allowed in ${what}`);
}

function checkName(text: string, what: string): string {
  const parts = text.split('/');
  if (NAME.test(text) && parts.every((part) => part !== '' && !/^\.+$/.test(part))) return text;
  throw invalidRef(`must not contain an empty part or a character that is not allowed in ${what}`);
}

function split(text: string, by: string): [string, string | undefined] {
  const at = text.indexOf(by);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + by.length)];
}

const invalidRef = (what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"model_ref" ${what}`, { field: 'model_ref' });
