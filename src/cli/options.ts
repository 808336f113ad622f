/** Options as data: parsing, the help text and the completion scripts all read the same table. */
import type { ParseArgsOptionDescriptor } from 'node:util';

export interface OptionSpec extends ParseArgsOptionDescriptor {
  /** One line for the help text. */
  readonly help: string;
  /** The name of the value in the help text, such as `N`; by default the choices. */
  readonly value?: string;
  /** The values it may have. */
  readonly choices?: readonly string[];
}

export type Options = Readonly<Record<string, OptionSpec>>;

export const JSON_OPTION = {
  json: { type: 'boolean', help: 'print JSON instead of text' },
} as const satisfies Options;

/** Options of every command that sends requests to a server. */
export const SERVER_OPTIONS = {
  ...JSON_OPTION,
  url: {
    type: 'string',
    value: 'URL',
    help: 'the address of the server; by default ORCHD_URL or http://127.0.0.1:8080',
  },
  token: {
    type: 'string',
    value: 'TOKEN',
    help: 'the token to send; by default ORCHD_TOKEN, which other users of this machine cannot see',
  },
} as const satisfies Options;

/** Options of every command that works on a data folder. */
export const DATA_OPTIONS = {
  data: {
    type: 'string',
    value: 'DIR',
    help: 'the data folder; ORCHD_DATA by default, or else checkpoint_dir',
  },
  config: { type: 'string', value: 'FILE', help: 'the configuration file; by default ORCHD_CONFIG' },
} as const satisfies Options;

/** For a daemon whose folder is a copy, or a restored backup. */
export const COPY_OPTION = {
  type: 'boolean',
  help: 'the folder is a copy or a restored backup: what ran in it counts as unknown; give it once',
} as const satisfies OptionSpec;

export interface UsageParts {
  /** How it is called, without `orchd`. */
  readonly call: string;
  readonly about: string;
  readonly options: Options;
  readonly examples: readonly string[];
}

export function usageOf({ call, about, options, examples }: UsageParts): string {
  const rows = Object.entries(options).map(([name, spec]) => ({ left: leftOf(name, spec), help: spec.help }));
  const width = Math.max(0, ...rows.map(({ left }) => left.length));
  const lines = rows.map(({ left, help }) => `  ${left.padEnd(width)}   ${help}`);
  return [`orchd ${call}`, about, lines.join('\n'), `Examples:\n${indented(examples)}`]
    .filter((part) => part !== '')
    .join('\n\n');
}

function leftOf(name: string, { type, value, choices, multiple }: OptionSpec): string {
  if (type === 'boolean') return `--${name}`;
  return `--${name} ${value ?? choices?.join('|') ?? 'VALUE'}${multiple ? ' …' : ''}`;
}

const indented = (lines: readonly string[]): string => lines.map((line) => `  ${line}`).join('\n');
