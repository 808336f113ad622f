/**
 * References to models:
 *   hf:{org}/{repo}[@{rev}][::file={path}]   a repository of the Hugging Face hub
 *   file:/absolute/path.gguf                 a file on the machine of the worker
 *   demo:NAME, openai:NAME                   a model that an engine has without a file
 *   anything else                            an alias
 * Each may end in `::adapter={path}[@sha256:{hex}]`, a LoRA file on the machine of the worker that is applied to the
 * model, and then in `::variant={name}`. Such a model is another one than without: jobs for one never run on the other.
 * References end up in paths and on command lines, so characters with a special meaning there are refused.
 */
import { OrchdError } from './errors.ts';

/** What a worker is told beside its model. */
export interface ModelParts {
  readonly adapter?: AdapterRef;
  /** A word for whoever starts the worker, such as a precision. */
  readonly variant?: string;
}

export interface AdapterRef {
  readonly path: string;
  /** The digest that the file must have. */
  readonly sha256?: string;
}

export interface HfRef extends ModelParts {
  readonly kind: 'hf';
  readonly org: string;
  readonly repo: string;
  readonly rev?: string;
  readonly file?: string;
}

export type ModelRef =
  | HfRef
  | ({ readonly kind: 'file'; readonly path: string } & ModelParts)
  | ({ readonly kind: 'engine'; readonly scheme: 'demo' | 'openai'; readonly name: string } & ModelParts)
  | ({ readonly kind: 'alias'; readonly name: string } & ModelParts);

const MAX_REF_CHARS = 1024;
const MAX_PART_CHARS = 255;

/** An organisation, repository, folder or file. It cannot begin with a dot or a dash: no hidden file, no option. */
const PART = /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/;
/** Names of engine models and aliases, in which slashes and colons are common. */
const NAME = /^[A-Za-z0-9_][A-Za-z0-9._+:/@-]*$/;
/** Control characters and line separators. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

const ADAPTER = '::adapter=';
const VARIANT = '::variant=';
const DIGEST = /@sha256:([0-9a-f]{64})$/;
/** Short, because a model is called after it. */
const VARIANT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$/;

export function parseModelRef(text: string): ModelRef {
  checkText(text);
  const [front, variant] = split(text, VARIANT);
  const [model, adapter] = split(front, ADAPTER);
  return {
    ...parseModel(model),
    ...(adapter !== undefined && { adapter: parseAdapter(adapter) }),
    ...(variant !== undefined && { variant: parseVariant(variant) }),
  };
}

function checkText(text: string, field?: string): void {
  if (text === '' || text.length > MAX_REF_CHARS)
    throw invalidRef(`must have 1 to ${MAX_REF_CHARS} characters`, field);
  if (CONTROL.test(text) || !text.isWellFormed())
    throw invalidRef('must not contain control characters', field);
  if (text.includes('\\')) throw invalidRef('must not contain a backslash', field);
  if (text.includes('%')) throw invalidRef('must not contain "%" or encoded characters', field);
}

function parseModel(text: string): ModelRef {
  const [scheme, rest] = split(text, ':');
  if (rest === undefined) return { kind: 'alias', name: checkName(text, 'an alias') };
  if (scheme === 'hf') return hubRef(rest);
  if (scheme === 'file') return { kind: 'file', path: absolute(rest) };
  if (scheme === 'demo' || scheme === 'openai') {
    return { kind: 'engine', scheme, name: checkName(rest, `a name after ${scheme}:`) };
  }
  return { kind: 'alias', name: checkName(text, 'an alias') };
}

function parseAdapter(text: string, field?: string): AdapterRef {
  const sha256 = DIGEST.exec(text)?.[1];
  const path = absolute(text.replace(DIGEST, ''), field);
  if (path.includes('::') || path.includes('@sha256:'))
    throw invalidRef(
      'must have an adapter whose path has no "::", and a digest of 64 hexadecimal digits',
      field,
    );
  return { path, ...(sha256 !== undefined && { sha256 }) };
}

function parseVariant(text: string, field?: string): string {
  if (VARIANT_NAME.test(text)) return text;
  throw invalidRef('must have a variant of 1 to 32 letters, digits, dots, dashes and underscores', field);
}

/** An adapter and a variant as operators name them: the adapter as a reference `file:` or an absolute path. */
export interface DerivedParts {
  readonly adapter?: string | undefined;
  readonly variant?: string | undefined;
}

/** The model with these parts. Throws INVALID_PARAMS, also for a model that has such parts already. */
export function derivedRef(text: string, { adapter, variant }: DerivedParts): ModelRef {
  const model = parseModelRef(text);
  if (model.adapter || model.variant !== undefined)
    throw invalidRef('must be without an adapter and a variant of its own', 'model_id');
  if (adapter !== undefined) checkText(adapter, 'adapter');
  const derived = {
    ...model,
    ...(adapter !== undefined && { adapter: parseAdapter(adapter.replace(/^file:/, ''), 'adapter') }),
    ...(variant !== undefined && { variant: parseVariant(variant, 'variant') }),
  };
  checkText(formatModelRef(derived), 'adapter');
  return derived;
}

/** The reference without adapter and variant. */
export function plainRef(ref: ModelRef): ModelRef {
  const { adapter: _, variant: _variant, ...plain } = ref;
  return plain;
}

/** The canonical text of a reference. */
export function formatModelRef(ref: ModelRef): string {
  const { adapter, variant } = ref;
  const digest = adapter?.sha256 === undefined ? '' : `@sha256:${adapter.sha256}`;
  const applied = adapter ? `${ADAPTER}${adapter.path}${digest}` : '';
  return formatModel(ref) + applied + (variant === undefined ? '' : VARIANT + variant);
}

function formatModel(ref: ModelRef): string {
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

function absolute(path: string, field?: string): string {
  if (!path.startsWith('/')) throw invalidRef('must have an absolute path', field);
  for (const part of path.slice(1).split('/')) {
    if (part === '' || part === '.' || part === '..')
      throw invalidRef('must not contain "//", "/./" or "/../" in its path', field);
    if (part.length > MAX_PART_CHARS)
      throw invalidRef(
        `must not contain a folder or file name of more than ${MAX_PART_CHARS} characters`,
        field,
      );
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

const invalidRef = (what: string, field = 'model_ref'): OrchdError =>
  new OrchdError('INVALID_PARAMS', `"${field}" ${what}`, { field });
