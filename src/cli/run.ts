/**
 * From the words on a command line to an exit code. A person is told what is wrong in a sentence and what to do
 * next; a stack trace is never shown.
 */
import { parseArgs } from 'node:util';
import { ClientError } from '../client/client.ts';
import { nearest } from '../kit/nearest.ts';
import { OrchdError } from '../model/errors.ts';
import { type Command, EXIT, type Given, type Terminal, UsageError } from './command.ts';
import { cancel } from './commands/cancel.ts';
import { completionOf } from './commands/completion.ts';
import { doctor } from './commands/doctor.ts';
import { explain } from './commands/explain.ts';
import { jobs } from './commands/jobs.ts';
import { migrate } from './commands/migrate.ts';
import { pool } from './commands/pool.ts';
import { redrive } from './commands/redrive.ts';
import { resolve } from './commands/resolve.ts';
import { show } from './commands/show.ts';
import { submit } from './commands/submit.ts';
import { tail } from './commands/tail.ts';
import { token } from './commands/token.ts';
import { up } from './commands/up.ts';
import { version } from './commands/version.ts';
import { worker } from './commands/worker.ts';
import { packageVersion } from './package-version.ts';
import { refusalOf } from './remote.ts';

/** A command is one file and one entry here. */
export const COMMANDS: readonly Command[] = [
  up,
  pool,
  worker,
  submit,
  jobs,
  show,
  explain,
  tail,
  cancel,
  redrive,
  resolve,
  token,
  doctor,
  migrate,
  completionOf(() => COMMANDS),
  version,
];

export async function run(words: readonly string[], terminal: Terminal): Promise<number> {
  const [first, ...rest] = words;
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    return help(rest[0], terminal);
  }
  if (first === '--version' || first === '-v') return version.run({ values: {}, positionals: [] }, terminal);
  const command = COMMANDS.find(({ name }) => name === first);
  if (!command) return refuseCommand(first, terminal);
  if (rest.includes('--help') || rest.includes('-h')) return help(first, terminal);
  try {
    return await command.run(parse(command, rest), terminal);
  } catch (error) {
    return refuse(error, command, terminal);
  }
}

function help(name: string | undefined, terminal: Terminal): number {
  const command = COMMANDS.find((each) => each.name === name);
  if (command) {
    terminal.print(`${command.summary}.\n\nusage: ${command.usage}`);
    return EXIT.ok;
  }
  if (name !== undefined) return refuseCommand(name, terminal);
  const width = Math.max(...COMMANDS.map((each) => each.name.length));
  const list = COMMANDS.map((each) => `  ${each.name.padEnd(width)}   ${each.summary}`);
  terminal.print(
    [
      `orchd ${packageVersion()}: one brain for LLM work`,
      '',
      'usage: orchd COMMAND [OPTIONS]',
      '',
      ...list,
      '',
      '`orchd COMMAND --help` says more of a command.',
    ].join('\n'),
  );
  return EXIT.ok;
}

function refuseCommand(name: string, terminal: Terminal): number {
  const kind = name.startsWith('-') ? 'option' : 'command';
  const close =
    kind === 'command'
      ? nearest(
          name,
          COMMANDS.map((each) => each.name),
        )
      : undefined;
  const hint = close === undefined ? '' : ` Did you mean "${close}"?`;
  terminal.complain(
    `orchd: there is no ${kind} "${name}".${hint}\nRun \`orchd --help\` to see what there is.`,
  );
  return EXIT.unusable;
}

function parse(command: Command, words: readonly string[]): Given {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options: command.options,
      allowPositionals: true,
      strict: true,
    });
    return { values: values as Given['values'], positionals };
  } catch (error) {
    throw new UsageError(sentenceOf(error as Error & { code?: string }, command));
  }
}

/** Node's own messages explain parseArgs; ours name the option and what comes close to it. */
function sentenceOf(error: Error & { code?: string }, command: Command): string {
  const option = /'(-[^' ]*)/.exec(error.message)?.[1] ?? '';
  if (error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const close = nearest(option.replace(/^-+/, ''), Object.keys(command.options));
    const hint =
      close === undefined ? 'A word that begins with - goes behind --.' : `Did you mean "--${close}"?`;
    return `there is no option "${option}". ${hint}`;
  }
  if (error.code === 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE') {
    if (/argument is ambiguous/.test(error.message)) {
      return `the option "${option}" needs a value; one that begins with - is written ${option}=-….`;
    }
    const isMissing = /argument missing/.test(error.message);
    return `the option "${option}" ${isMissing ? 'needs a value' : 'takes no value'}.`;
  }
  return `${error.message}.`;
}

function refuse(thrown: unknown, command: Command, terminal: Terminal): number {
  const name = `orchd ${command.name}`;
  if (thrown instanceof UsageError) {
    terminal.complain(`${name}: ${thrown.message}\nRun \`${name} --help\` to see how it is used.`);
  } else if (thrown instanceof ClientError) {
    const { text, code } = refusalOf(thrown);
    terminal.complain(`${name}: ${text}`);
    return code;
  } else if (thrown instanceof OrchdError) {
    terminal.complain(`${name}: ${thrown.message} (${thrown.code})\n${thrown.next}`);
  } else {
    terminal.complain(`${name}: ${(thrown as Error).message ?? String(thrown)}`);
  }
  return EXIT.unusable;
}
