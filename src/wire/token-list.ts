/** Reads the text of a token file. Every fault is an error that names its place, so that no request meets it later. */
import { isTimeZone } from '../kit/window.ts';
import { OrchdError } from '../model/errors.ts';
import { TENANT } from '../model/records.ts';
import { ROLES, type Role, type TokenEntry, type TokenGrant } from './tokens.ts';

const isTenant = new RegExp(TENANT);
/** Control characters are refused: names appear in logs and on terminals. */
const isName = /^[^\p{Cc}]{1,128}$/u;

/** What each member of an entry has to be. */
const MEMBERS: Readonly<
  Record<
    Exclude<keyof TokenEntry, keyof TokenGrant>,
    readonly [expected: string, isValid: (value: unknown) => boolean]
  >
> = {
  id: ['8 hexadecimal digits', (value) => isText(value, /^[0-9a-f]{8}$/)],
  name: ['a name of at most 128 characters', (value) => isText(value, isName)],
  role: [`one of ${ROLES.join(', ')}`, (value) => ROLES.includes(value as Role)],
  tenant: ['the name of a tenant', (value) => isText(value, isTenant)],
  hash: ['64 hexadecimal digits', (value) => isText(value, /^[0-9a-f]{64}$/)],
  created_at: ['an instant in milliseconds', (value) => Number.isFinite(value)],
};

const MAX_MODELS = 1000;
const isModelName = /^[^\p{Cc}*]{0,400}\*?$/u;
const WINDOWS: readonly unknown[] = ['hour', 'day', 'week', 'month', 'total'];

/** What each member that may be absent has to be. */
const OPTIONAL: Readonly<
  Record<keyof TokenGrant, readonly [expected: string, isValid: (value: unknown) => boolean]>
> = {
  models: ['a list of names of models, each with at most a * at its end', isModels],
  cost_budget: [
    'a whole number of millionths, from 0 up',
    (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  ],
  window: [`one of ${WINDOWS.join(', ')}`, (value) => WINDOWS.includes(value)],
  time_zone: [
    'a time zone, such as Europe/Berlin',
    (value) => typeof value === 'string' && isTimeZone(value),
  ],
  hard: ['true or false', (value) => typeof value === 'boolean'],
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
  for (const [member, [expected, isValid]] of Object.entries(OPTIONAL)) {
    const value = (entry as Record<string, unknown>)[member];
    if (value !== undefined && !isValid(value)) return `.${member} must be ${expected}`;
  }
  return uselessMember(entry as TokenGrant);
}

/** A member that says something about a budget, or about a window, that there is not. */
function uselessMember({ cost_budget, window, time_zone, hard }: TokenGrant): string | undefined {
  if (cost_budget === undefined) {
    const useless = Object.entries({ window, time_zone, hard }).find(([, value]) => value !== undefined);
    return useless && `.${useless[0]} needs a cost_budget`;
  }
  const hasWindow = window !== undefined && window !== 'total';
  return time_zone !== undefined && !hasWindow ? '.time_zone needs a window' : undefined;
}

function isModels(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > MAX_MODELS) return false;
  return value.every((each) => isText(each, isModelName) && each !== '');
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
