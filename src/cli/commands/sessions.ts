/** `orchd sessions [show ID | export ID | import FILE | fork ID | delete ID]` */
import type { OrchdClient } from '../../client/client.ts';
import type { ExportedSession, SessionView } from '../../model/http/sessions.ts';
import { flagOf, noPositionals, oneOf, singlePositional, textOf } from '../arguments.ts';
import { type CliArguments, type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { jsonOf } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { listedBy } from '../refusal.ts';
import { connect } from '../remote.ts';
import { messageText } from '../text/message-text.ts';
import { oneLine } from '../text/screen.ts';
import { sessionTable } from '../text/session-text.ts';

/** Where the ids of sessions are. */
export const SESSION_LIST = '`orchd sessions` lists the sessions, with --archived those of the archive.';

const WORDS = ['show', 'export', 'import', 'fork', 'delete'] as const;

const options = {
  archived: { type: 'boolean', help: 'list the sessions in the archive: they were not used for long' },
  as: { type: 'string', value: 'SESSION', help: 'fork, import: the id of the new session' },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print JSON: one object per line, one for each session' },
} as const;

export const sessions: Command = {
  usage: usageOf({
    call: 'sessions | sessions show|export|fork|delete ID | sessions import FILE [OPTIONS]',
    about: `Lists the sessions, the last used first. A session is a conversation of jobs and runs.
show prints what was said in it, export prints it as one JSON object, import makes a session of such an object (- is
standard input), fork makes another one that goes on from there.
delete cancels its jobs, and deletes it with everything that was said in it: nobody can read that any more.`,
    options,
    examples: [
      'orchd sessions',
      'orchd sessions show $SESSION',
      'orchd sessions export $SESSION > session.json',
      'orchd sessions import session.json --as other',
      'orchd sessions fork $SESSION --as other',
      'orchd sessions delete $SESSION',
    ],
  }),
  options,
  words: WORDS,
  async run(args, terminal) {
    const [word, ...rest] = args.positionals;
    const client = connect(args);
    if (word === undefined) return list(client, args, terminal);
    const action = oneOf(word, 'the action', WORDS);
    if (action === 'import') return importSession(client, singlePositional(rest, 'file'), args, terminal);
    const id = singlePositional(rest, 'session');
    return listedBy(SESSION_LIST, ACTIONS[action](client, id, args, terminal));
  },
};

type Action = (client: OrchdClient, id: string, args: CliArguments, terminal: Terminal) => Promise<number>;

const ACTIONS: Record<Exclude<(typeof WORDS)[number], 'import'>, Action> = {
  show,
  export: exportSession,
  fork,
  delete: deleteSession,
};

async function list(client: OrchdClient, args: CliArguments, terminal: Terminal): Promise<number> {
  noPositionals(args.positionals);
  const found = await client.sessions.list({ archived: flagOf(args.values, 'archived') });
  if (flagOf(args.values, 'json')) for (const each of found) terminal.printData(JSON.stringify(each));
  else if (found.length === 0) terminal.complain('no sessions.');
  else terminal.print(sessionTable(found));
  return EXIT.ok;
}

async function show(
  client: OrchdClient,
  id: string,
  args: CliArguments,
  terminal: Terminal,
): Promise<number> {
  const view = await client.sessions.get(id);
  if (flagOf(args.values, 'json')) {
    terminal.printData(JSON.stringify(view));
    return EXIT.ok;
  }
  terminal.print(summary(view));
  for (const message of await client.sessions.messages(id)) terminal.print(messageText(message));
  return EXIT.ok;
}

function summary(session: SessionView): string {
  const { session_id: id, messages, tokens_used: tokens, live_jobs: live, archived } = session;
  return `${oneLine(id)}: ${messages} messages, ${tokens} tokens, ${live} live jobs${archived ? ', in the archive' : ''}`;
}

async function exportSession(client: OrchdClient, id: string, _: CliArguments, terminal: Terminal) {
  terminal.printData(JSON.stringify(await client.sessions.export(id)));
  return EXIT.ok;
}

async function importSession(client: OrchdClient, file: string, args: CliArguments, terminal: Terminal) {
  const given = await jsonOf(file, file === '-' ? file : `@${file}`);
  if (!isExport(given)) throw new UsageError(`"${file}" is no export of a session.`);
  const made = await client.sessions.import(given, textOf(args.values, 'as'));
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(made));
  else terminal.print(made.session_id);
  return EXIT.ok;
}

function isExport(value: unknown): value is ExportedSession {
  const { session, messages } = (value ?? {}) as Partial<ExportedSession>;
  return typeof session?.session_id === 'string' && Array.isArray(messages);
}

async function fork(client: OrchdClient, id: string, args: CliArguments, terminal: Terminal) {
  const made = await client.sessions.fork(id, textOf(args.values, 'as'));
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(made));
  else terminal.print(made.session_id);
  return EXIT.ok;
}

async function deleteSession(client: OrchdClient, id: string, _: CliArguments, terminal: Terminal) {
  await client.sessions.delete(id);
  terminal.complain(`${oneLine(id)} is deleted.`);
  return EXIT.ok;
}
