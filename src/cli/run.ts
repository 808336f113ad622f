/**
 * Runs the command that a command line names and returns its exit code. An error is one sentence about what is wrong
 * and what to do next; a stack trace is never shown.
 */
import { parseArgs } from 'node:util';
import { nearest } from '../kit/nearest.ts';
import {
  type CliArguments,
  type Command,
  type CommandEntry,
  EXIT,
  type Terminal,
  UsageError,
} from './command.ts';
import { COMMANDS } from './commands.ts';
import { packageVersion } from './package-version.ts';

/** As `engines` in package.json says; an older one fails inside of a command, with a word of its own. */
const OLDEST_NODE = 26;
const nodeMajor = (): number => Number.parseInt(process.versions.node, 10);

export async function run(words: readonly string[], terminal: Terminal): Promise<number> {
  if (nodeMajor() < OLDEST_NODE) {
    terminal.complain(`orchd needs Node ${OLDEST_NODE} or newer; this is ${process.versions.node}.`);
    return EXIT.unusable;
  }
  const [first, ...rest] = words;
  if (first === undefined || first === '--help' || first === '-h' || first === 'help') {
    return help(rest[0], terminal);
  }
  if (first === '--version' || first === '-v') return run(['version'], terminal);
  const entry = COMMANDS.find(({ name }) => name === first);
  if (!entry) return refuseCommand(first, terminal);
  if (rest.includes('--help') || rest.includes('-h')) return help(first, terminal);
  try {
    const command = await entry.load();
    return await command.run(parse(command, rest), terminal);
  } catch (error) {
    return refuse(error, entry, terminal);
  }
}

async function help(name: string | undefined, terminal: Terminal): Promise<number> {
  const entry = COMMANDS.find((each) => each.name === name);
  if (entry) {
    const { usage } = await entry.load();
    terminal.print(`${entry.summary}.\n\nusage: ${usage}`);
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
      '`orchd COMMAND --help` describes one command.',
    ].join('\n'),
  );
  return EXIT.ok;
}

/** Commands of other tools, and what does the same here. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  ps: '`orchd jobs` lists the jobs, `orchd status` shows the whole.',
  list: '`orchd jobs` lists the jobs, `orchd status` shows the whole.',
  stop: 'Ctrl-C stops an `orchd up`; `orchd cancel` stops jobs.',
  down: 'Ctrl-C stops an `orchd up`.',
};

function refuseCommand(name: string, terminal: Terminal): number {
  const kind = name.startsWith('-') ? 'option' : 'command';
  const close =
    kind === 'command'
      ? nearest(
          name,
          COMMANDS.map((each) => each.name),
        )
      : undefined;
  const meant = close === undefined ? '' : ` Did you mean "${close}"?`;
  const hint = Object.hasOwn(ELSEWHERE, name) ? ` ${ELSEWHERE[name]}` : meant;
  terminal.complain(
    `orchd: there is no ${kind} "${name}".${hint}\nRun \`orchd --help\` to see what there is.`,
  );
  return EXIT.unusable;
}

function parse(command: Command, words: readonly string[]): CliArguments {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      options: command.options,
      allowPositionals: true,
      strict: true,
    });
    return { values: values as CliArguments['values'], positionals };
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

async function refuse(thrown: unknown, entry: CommandEntry, terminal: Terminal): Promise<number> {
  const name = `orchd ${entry.name}`;
  if (thrown instanceof UsageError) {
    terminal.complain(`${name}: ${thrown.message}\nRun \`${name} --help\` to see how it is used.`);
    return EXIT.unusable;
  }
  // Loaded only here: a command that succeeds needs neither.
  const { refusalOf } = await import('./refusal.ts');
  const { text, code } = refusalOf(thrown);
  terminal.complain(`${name}: ${text}`);
  return code;
}
