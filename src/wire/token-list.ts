/** Reads the text of a token file. Every fault is an error that names its place, so that no request meets it later. */
import { OrchdError } from '../model/errors.ts';
import { TENANT } from '../model/records.ts';
import { ROLES, type Role, type TokenEntry } from './tokens.ts';

const isTenant = new RegExp(TENANT);
/** Control characters are refused: names appear in logs and on terminals. */
const isName = /^[^\p{Cc}]{1,128}$/u;

/** What each member of an entry has to be. */
const MEMBERS: Readonly<
  Record<keyof TokenEntry, readonly [expected: string, isValid: (value: unknown) => boolean]>
> = {
  id: ['8 hexadecimal digits', (value) => isText(value, /^[0-9a-f]{8}$/)],
  name: ['a name of at most 128 characters', (value) => isText(value, isName)],
  role: [`one of ${ROLES.join(', ')}`, (value) => ROLES.includes(value as Role)],
  tenant: ['the name of a tenant', (value) => isText(value, isTenant)],
  hash: ['64 hexadecimal digits', (value) => isText(value, /^[0-9a-f]{64}$/)],
  created_at: ['an instant in milliseconds', (value) => Number.isFinite(value)],
};

const isText = (value: unknown, form: RegExp): boolean => typeof value === 'string' && form.test(value);

/** The tokens in the text of a file; `path` is for messages. Their names may still repeat: see `checkUnique`. */
export function parseTokenList(text: string, path: string): readonly TokenEntry[] {
  const tokens = listIn(text);
  if (!tokens) throw fault(path, 'it is not JSON with a list `tokens`');
  for (const [at, entry] of tokens.entries()) {
    const wrong = whatIsWrong(entry);
    if (wrong !== undefined) throw fault(path, `tokens[${at}]${wrong}`);
  }
  return tokens as TokenEntry[];
}

function listIn(text: string): readonly unknown[] | undefined {
  try {
    const { tokens } = JSON.parse(text) as { tokens?: unknown };
    return Array.isArray(tokens) ? tokens : undefined;
  } catch {
    return undefined;
  }
}

function whatIsWrong(entry: unknown): string | undefined {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return ' is not an object';
  for (const [member, [expected, isValid]] of Object.entries(MEMBERS))
    if (!isValid((entry as Record<string, unknown>)[member])) return `.${member} must be ${expected}`;
  return undefined;
}

/**
 * Refuses tokens that a request could not tell apart: two with the same id, or two of one tenant with the same name,
 * which would share limits, streams and the name in the audit trail.
 */
export function checkUnique(tokens: readonly TokenEntry[], path: string): void {
  const ids = new Set<string>();
  const names = new Map<string, string>();
  for (const { id, name, tenant } of tokens) {
    if (ids.has(id)) throw fault(path, `two tokens have the id ${id}`);
    ids.add(id);
    const key = `${tenant}~${name}`;
    const other = names.get(key);
    if (other !== undefined)
      throw fault(
        path,
        `the tokens ${other} and ${id} of the tenant "${tenant}" have the same name "${name}"; revoke one with \`orchd token revoke ID\``,
      );
    names.set(key, id);
  }
}

const fault = (path: string, what: string): OrchdError =>
  new OrchdError('CONFIG_INVALID', `the token file ${path} is not valid: ${what}`);
