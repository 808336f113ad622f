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
  if (text === '' || text.length > MAX_REF_CHARS) throw bad(`needs 1 to ${MAX_REF_CHARS} characters`);
  if (CONTROL.test(text) || !text.isWellFormed()) throw bad('may hold no control characters');
  if (text.includes('\\')) throw bad('may hold no backslash');
  if (text.includes('%')) throw bad('may hold no encoded characters');
  const [scheme, rest] = split(text, ':');
  if (rest === undefined) return { kind: 'alias', name: name(text, 'an alias') };
  if (scheme === 'hf') return hubRef(rest);
  if (scheme === 'file') return { kind: 'file', path: absolute(rest) };
  if (scheme === 'demo' || scheme === 'openai') {
    return { kind: 'engine', scheme, name: name(rest, `what follows ${scheme}:`) };
  }
  return { kind: 'alias', name: name(text, 'an alias') };
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
  if (option !== undefined && !option.startsWith('file=')) throw bad('may have ::file=PATH and nothing else');
  const [path, rev] = split(head, '@');
  const parts = path.split('/');
  if (parts.length !== 2) throw bad('of the hub is hf:{org}/{repo}');
  const [org, repo] = parts.map((part) => checked(part, 'the name of a repository')) as [string, string];
  // The cache folder of a repository is named `org--repo`, so the separator may not occur in the parts.
  if (org.includes('--') || repo.includes('--')) throw bad('of the hub may not hold "--"');
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
    .map((part) => checked(part, what))
    .join('/');

function absolute(path: string): string {
  if (!path.startsWith('/')) throw bad('of a file needs an absolute path');
  for (const part of path.slice(1).split('/')) {
    if (part === '' || part === '.' || part === '..')
      throw bad('of a file may hold no empty part, "." or ".."');
    if (part.length > MAX_PART_CHARS) throw bad(`has a part of more than ${MAX_PART_CHARS} characters`);
  }
  return path;
}

function checked(part: string, what: string): string {
  if (part.length <= MAX_PART_CHARS && PART.test(part) && !part.includes('..')) return part;
  throw bad(`has a wrong character in ${what}, or an empty part`);
}

function name(text: string, what: string): string {
  const parts = text.split('/');
  if (NAME.test(text) && parts.every((part) => part !== '' && !/^\.+$/.test(part))) return text;
  throw bad(`has a wrong character or an empty part in ${what}`);
}

function split(text: string, by: string): [string, string | undefined] {
  const at = text.indexOf(by);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + by.length)];
}

const bad = (what: string): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"model_ref" ${what}`, { field: 'model_ref' });
