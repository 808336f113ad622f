/** `orchd token create|list|revoke` */
import { realEnv } from '../../kit/env/real.ts';
import { DEFAULT_TENANT, TENANT } from '../../model/records.ts';
import { makeToken, ROLES, type TokenEntry } from '../../wire/tokens.ts';
import { choiceOf, flagOf, noPositionals, oneOf, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { DATA_OPTIONS, JSON_OPTION, usageOf } from '../options.ts';
import { dataFolderAlone, folderAt } from '../settings.ts';
import { instantText } from '../text/duration.ts';
import { moneyText } from '../text/money.ts';
import { tableText } from '../text/table.ts';
import { GRANT_OPTIONS, grantOf } from '../token-grant.ts';
import { TokenStore } from '../token-store.ts';

const WORDS = ['create', 'list', 'revoke'] as const;

const options = {
  role: {
    type: 'string',
    choices: ROLES,
    help: 'what it permits; the last two are for programs',
  },
  tenant: {
    type: 'string',
    value: 'TENANT',
    help: 'the tenant that it belongs to; by default "default", that of the operator',
  },
  ...GRANT_OPTIONS,
  ...DATA_OPTIONS,
  ...JSON_OPTION,
} as const;

export const token: Command = {
  usage: usageOf({
    call: 'token create NAME --role ROLE | token list | token revoke ID… [OPTIONS]',
    about: `Creates, lists and revokes tokens in the data folder. A server that runs on this folder notices it within seconds.
Without tokens every caller on this machine may do everything; as soon as there is a token, every caller needs one.
A token is printed once, when it is created: only its hash is stored. With models or a budget it is a virtual key.`,
    options,
    examples: [
      'orchd token create ada --role admin',
      'orchd token create gpu-1 --role pool',
      'orchd token create nightly --role submit --tenant research --data data/orchestrator',
      "orchd token create intern --role submit --models 'small,org/*' --budget 25 --window month --hard",
      'orchd token list',
      'orchd token revoke 1f2e3d4c',
    ],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    if (word === undefined) throw new UsageError(`the action is missing: ${WORDS.join(', ')}.`);
    const action = oneOf(word, 'the action', WORDS);
    const inner = { ...args, positionals: rest };
    return ACTIONS[action](inner, terminal);
  },
};

const ACTIONS: Record<(typeof WORDS)[number], Command['run']> = { create, list, revoke };

const isName = /^[A-Za-z0-9._:/@-]{1,128}$/;

async function create(args: CliArguments, terminal: Terminal): Promise<number> {
  const { values } = args;
  const name = singlePositional(args.positionals, 'name');
  if (!isName.test(name))
    throw new UsageError(`"${name}" cannot be a name: use letters, digits and ._:/@- only.`);
  const role = choiceOf(values, 'role', ROLES);
  if (role === undefined) throw new UsageError(`the role is missing: --role ${ROLES.join('|')}`);
  const tenant = textOf(values, 'tenant');
  if (tenant !== undefined && !new RegExp(TENANT).test(tenant)) {
    throw new UsageError(`"${tenant}" cannot be a tenant: use small letters, digits, - and _ only.`);
  }
  const isForPrograms = role === 'pool' || role === 'consumer';
  if (isForPrograms && tenant !== undefined && tenant !== DEFAULT_TENANT)
    throw new UsageError(`${role}s are shared by all tenants: leave --tenant out.`);
  const env = realEnv();
  const store = await storeOf(args);
  const made = makeToken(env.random, env.clock.now(), name, role, tenant, grantOf(args));
  const { before } = await store.change((tokens) => withToken(tokens, made.entry));
  if (flagOf(values, 'json')) terminal.printData(JSON.stringify({ token: made.token, ...shown(made.entry) }));
  else terminal.print(made.token);
  terminal.complain(
    `Store it now: it is not shown again. Its id is ${made.entry.id}; a server on ${store.folder} accepts it within seconds.`,
  );
  if (before === 0) terminal.complain('It is the first token: from now on every caller needs one.');
  return EXIT.ok;
}

function withToken(tokens: readonly TokenEntry[], entry: TokenEntry): readonly TokenEntry[] {
  const taken = tokens.find(({ name, tenant }) => name === entry.name && tenant === entry.tenant);
  if (!taken) return [...tokens, entry];
  throw new UsageError(
    `the tenant "${taken.tenant}" has a token "${taken.name}" already (${taken.id}): choose another name, or revoke it first.`,
  );
}

async function list(args: CliArguments, terminal: Terminal): Promise<number> {
  noPositionals(args.positionals);
  const store = await storeOf(args);
  const tokens = await store.list();
  if (flagOf(args.values, 'json')) {
    for (const entry of tokens) terminal.printData(JSON.stringify(shown(entry)));
  } else if (tokens.length === 0) {
    terminal.complain(`no tokens in ${store.folder}.`);
  } else {
    const rows = tokens.map((entry) => {
      const { id, name, role, tenant, created_at: at } = entry;
      return [id, name, role, tenant, instantText(at), grantText(entry)];
    });
    terminal.print(tableText(['ID', 'NAME', 'ROLE', 'TENANT', 'CREATED', 'MAY USE'], rows));
  }
  return EXIT.ok;
}

/** The models and the budget of a virtual key. */
function grantText({ models, cost_budget: budget, window = 'total', hard }: TokenEntry): string {
  const named = models && `models ${models.join(', ')}`;
  const amount =
    budget !== undefined && `${hard ? 'at most' : 'warns at'} ${moneyText(budget, '').trimEnd()}`;
  const limit = amount && (window === 'total' ? `${amount} in total` : `${amount} per ${window}`);
  return [named, limit].filter(Boolean).join('; ');
}

async function revoke(args: CliArguments, terminal: Terminal): Promise<number> {
  const ids = args.positionals;
  if (ids.length === 0) throw new UsageError('the token id is missing; `orchd token list` shows the ids.');
  const store = await storeOf(args);
  let gone: readonly TokenEntry[] = [];
  const { before, after } = await store.change((tokens) => {
    gone = tokens.filter(({ id }) => ids.includes(id));
    return gone.length === 0 ? tokens : tokens.filter((entry) => !gone.includes(entry));
  });
  for (const entry of gone) {
    const text = `${entry.id} (${entry.name}, ${entry.role}) is revoked; a running server refuses it within seconds.`;
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(shown(entry)));
    else terminal.print(text);
  }
  const unknown = ids.filter((id) => !gone.some((entry) => entry.id === id));
  for (const id of unknown)
    terminal.complain(`orchd token revoke: there is no token "${id}" in ${store.folder}.`);
  if (before > 0 && after === 0) {
    terminal.complain(
      'No token is left: on a loopback address everyone on this machine may do everything again.',
    );
  }
  return unknown.length === 0 ? EXIT.ok : EXIT.problems;
}

async function storeOf(args: CliArguments): Promise<TokenStore> {
  return new TokenStore(realEnv(), await folderAt(await dataFolderAlone(args)));
}

/** Everything but the hash. */
const shown = ({ hash: _, ...entry }: TokenEntry): Omit<TokenEntry, 'hash'> => entry;
