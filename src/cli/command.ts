/**
 * What a command is, and what it may use of the terminal. Its module is loaded for every call, for its help and for
 * completion scripts: what is heavy (schemas, YAML, the server) it imports in `run`.
 */
import type { ParseArgsOptionsConfig } from 'node:util';

/** Exit codes of every command. */
export const EXIT = {
  ok: 0,
  /** The command did its work and found something wrong. */
  problems: 1,
  /** It was called in a wrong way, or could not read what it was pointed at. */
  unusable: 2,
} as const;

export interface Terminal {
  /** Whether a person reads along: then output is aligned and coloured. */
  readonly isPerson: boolean;
  print(text: string): void;
  complain(text: string): void;
}

/** The values of a command line, checked against the command's options. */
export interface Given {
  readonly values: Readonly<Record<string, string | boolean | readonly string[] | undefined>>;
  readonly positionals: readonly string[];
}

export interface Command {
  /** The help text, without its heading. */
  readonly usage: string;
  readonly options: ParseArgsOptionsConfig;
  /** The words that may come next, where they are a fixed set. */
  readonly words?: readonly string[];
  /** Returns the exit code. */
  run(given: Given, terminal: Terminal): Promise<number>;
}

/** An entry of the table of commands. */
export interface CommandEntry {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  load(): Promise<Command>;
}

/** A command with what it takes, as help and completion scripts show it. */
export type LoadedCommand = Command & Pick<CommandEntry, 'name' | 'summary'>;

/** A wrong call: said in one sentence, with the way to the help. */
export class UsageError extends Error {}
