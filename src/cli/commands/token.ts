/** `orchd token create|list|revoke` */
import { realEnv } from '../../kit/env/real.ts';
import { makeToken, ROLES, type TokenEntry } from '../../wire/tokens.ts';
import { type Command, EXIT, type Given, type Terminal, UsageError } from '../command.ts';
import { choiceOf, flagOf, noWords, oneOf, onlyWord, textOf } from '../given.ts';
import { DATA_OPTIONS, JSON_OPTION, usageOf } from '../options.ts';
import { dataFolderAlone, folderAt } from '../settings.ts';
import { instantText } from '../text/duration.ts';
import { tableText } from '../text/table.ts';
import { TokenStore } from '../token-store.ts';

const WORDS = ['create', 'list', 'revoke'] as const;

const options = {
  role: { type: 'string', choices: ROLES, says: 'what its holder may do; each includes the ones before it' },
  tenant: { type: 'string', value: 'TENANT', says: 'whose jobs it sees; "default" by default' },
  ...DATA_OPTIONS,
  ...JSON_OPTION,
} as const;

export const token: Command = {
  usage: usageOf({
    call: 'token create NAME --role ROLE | token list | token revoke ID… [OPTIONS]',
    about: `Works on the data folder, beside a server that runs on it, which notices within seconds.
Without any token everyone on this machine may do everything; with the first one everyone needs one.
A token is shown once, when it is created: only its hash is kept.`,
    options,
    examples: [
      'orchd token create ada --role admin',
      'orchd token create nightly --role submit --tenant research --data data/orchestrator',
      'orchd token list',
      'orchd token revoke 1f2e3d4c',
    ],
  }),
  options,
  words: WORDS,
  async run(given, terminal) {
    const [word, ...rest] = given.positionals;
    if (word === undefined) throw new UsageError(`what of it? ${WORDS.join(', ')}.`);
    const action = oneOf(word, 'what to do with a token', WORDS);
    const inner = { ...given, positionals: rest };
    return ACTIONS[action](inner, terminal);
  },
};

const ACTIONS: Record<(typeof WORDS)[number], Command['run']> = { create, list, revoke };

const isName = /^[A-Za-z0-9._:/@-]{1,128}$/;

async function create(given: Given, terminal: Terminal): Promise<number> {
  const { values } = given;
  const name = onlyWord(given.positionals, 'name');
  if (!isName.test(name))
    throw new UsageError(`"${name}" cannot be a name: letters, digits and ._:/@- make one.`);
  const role = choiceOf(values, 'role', ROLES);
  if (role === undefined) throw new UsageError(`which role? --role ${ROLES.join('|')}`);
  const { TENANT } = await import('../../model/submit.ts');
  const tenant = textOf(values, 'tenant');
  if (tenant !== undefined && !new RegExp(TENANT).test(tenant)) {
    throw new UsageError(`"${tenant}" cannot be a tenant: small letters, digits, - and _ make one.`);
  }
  const env = realEnv();
  const store = await storeOf(given);
  const made = makeToken(env.random, env.clock.now(), name, role, tenant);
  const { before } = await store.change((tokens) => [...tokens, made.entry]);
  if (flagOf(values, 'json')) terminal.print(JSON.stringify({ token: made.token, ...shown(made.entry) }));
  else terminal.print(made.token);
  terminal.complain(
    `Keep it: it is not shown again. Its id is ${made.entry.id}; a server on ${store.folder} knows it within seconds.`,
  );
  if (before === 0) terminal.complain('It is the first one: from now on every caller needs a token.');
  return EXIT.ok;
}

async function list(given: Given, terminal: Terminal): Promise<number> {
  noWords(given.positionals);
  const store = await storeOf(given);
  const tokens = await store.list();
  if (flagOf(given.values, 'json')) {
    for (const entry of tokens) terminal.print(JSON.stringify(shown(entry)));
  } else if (tokens.length === 0) {
    terminal.complain(`no tokens in ${store.folder}.`);
  } else {
    const rows = tokens.map(({ id, name, role, tenant, created_at: at }) => [
      id,
      name,
      role,
      tenant,
      instantText(at),
    ]);
    terminal.print(tableText(['ID', 'NAME', 'ROLE', 'TENANT', 'CREATED'], rows));
  }
  return EXIT.ok;
}

async function revoke(given: Given, terminal: Terminal): Promise<number> {
  const ids = given.positionals;
  if (ids.length === 0) throw new UsageError('which token? Name its id; `orchd token list` shows them.');
  const store = await storeOf(given);
  let gone: readonly TokenEntry[] = [];
  const { before, after } = await store.change((tokens) => {
    gone = tokens.filter(({ id }) => ids.includes(id));
    return gone.length === 0 ? tokens : tokens.filter((entry) => !gone.includes(entry));
  });
  for (const entry of gone) {
    const text = `${entry.id} (${entry.name}, ${entry.role}) is revoked; a running server refuses it within seconds.`;
    terminal.print(flagOf(given.values, 'json') ? JSON.stringify(shown(entry)) : text);
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

async function storeOf(given: Given): Promise<TokenStore> {
  return new TokenStore(realEnv(), await folderAt(await dataFolderAlone(given)));
}

/** Everything but the hash. */
const shown = ({ hash: _, ...entry }: TokenEntry): Omit<TokenEntry, 'hash'> => entry;
