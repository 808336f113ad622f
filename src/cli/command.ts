/**
 * The interface of a command and of the terminal that it writes to. The module of a command is loaded for its help and
 * for completion scripts, too: heavy modules (schemas, YAML, the server) are imported in `run`.
 */
import type { ParseArgsOptionsConfig } from 'node:util';

/** Exit codes of every command. */
export const EXIT = {
  ok: 0,
  /** The command did its work and found something wrong. */
  problems: 1,
  /** The command line was wrong, or the command could not read or reach what it names. */
  unusable: 2,
  /** The results of a batch were printed, and some of its jobs have not ended yet. */
  unfinished: 3,
  /** The time of --timeout has passed; the same as that of the command `timeout`. */
  timeout: 124,
} as const;

export interface Terminal {
  /** Standard output is a terminal that shows colours: output is coloured and cut to its width. */
  readonly isPerson: boolean;
  /** Standard output is a terminal. */
  readonly isTerminal?: boolean;
  /** The width of the terminal at standard output, if it is one and reports its width. */
  readonly columns?: number | undefined;
  /** Standard error is a terminal, so `status` shows something. */
  readonly showsStatus?: boolean;
  /** Writes a line of text for people to standard output. Control characters are made visible. */
  print(text: string): void;
  /** Writes a line for programs, such as JSON, to standard output: unchanged unless that is a terminal. */
  printData(text: string): void;
  /** Writes a line of text for people to standard error. Control characters are made visible. */
  complain(text: string): void;
  /**
   * Writes a piece of the content that was asked for to standard output: unchanged unless that is a terminal. Resolves
   * when more can be written.
   */
  write(text: string): Promise<void>;
  /** Overwrites the last line of standard error if that is a terminal; without text it is cleared. */
  status(text?: string): void;
  /**
   * Draws a block of lines over the one drawn before, if standard output is a terminal, and cuts it to its size. Without
   * text the block stays as it is, and what is written next follows below it.
   */
  redraw(text?: string): void;
}

/** The options and positional words of a command line, checked against the command's options. */
export interface CliArguments {
  readonly values: Readonly<Record<string, string | boolean | readonly string[] | undefined>>;
  readonly positionals: readonly string[];
}

export interface Command {
  /** The help text, without its heading. */
  readonly usage: string;
  readonly options: ParseArgsOptionsConfig;
  /** The possible first positionals, if they are a fixed set; for completion scripts. */
  readonly words?: readonly string[];
  /** Returns the exit code. */
  run(args: CliArguments, terminal: Terminal): Promise<number>;
}

/** An entry of the table of commands. */
export interface CommandEntry {
  readonly name: string;
  /** One line for the list of commands. */
  readonly summary: string;
  load(): Promise<Command>;
}

/** A command with its name and summary, as help and completion scripts show it. */
export type LoadedCommand = Command & Pick<CommandEntry, 'name' | 'summary'>;

/** The command line is wrong. The message is one sentence; run() adds how to get the help. */
export class UsageError extends Error {}
