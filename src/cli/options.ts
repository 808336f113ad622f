/** Options as data: parsing, the help text and the completion scripts all read the same table. */
import type { ParseArgsOptionDescriptor } from 'node:util';

export interface OptionSpec extends ParseArgsOptionDescriptor {
  /** One line for the help. */
  readonly says: string;
  /** What its value is called in the help, such as `N`; its choices by default. */
  readonly value?: string;
  /** The values it may have. */
  readonly choices?: readonly string[];
}

export type Options = Readonly<Record<string, OptionSpec>>;

export const JSON_OPTION = {
  json: { type: 'boolean', says: 'JSON instead of text' },
} as const satisfies Options;

/** Of every command that talks to a server. */
export const SERVER_OPTIONS = {
  ...JSON_OPTION,
  url: { type: 'string', value: 'URL', says: 'the server; ORCHD_URL or http://127.0.0.1:8080 by default' },
  token: {
    type: 'string',
    value: 'TOKEN',
    says: 'ORCHD_TOKEN by default, which other users of the machine cannot see',
  },
} as const satisfies Options;

/** Of every command that works on a data folder. */
export const DATA_OPTIONS = {
  data: { type: 'string', value: 'DIR', says: 'the data folder; ORCHD_DATA or checkpoint_dir by default' },
  config: { type: 'string', value: 'FILE', says: 'the configuration; ORCHD_CONFIG by default' },
} as const satisfies Options;

export interface UsageParts {
  /** How it is called, without `orchd`. */
  readonly call: string;
  readonly about: string;
  readonly options: Options;
  readonly examples: readonly string[];
}

export function usageOf({ call, about, options, examples }: UsageParts): string {
  const rows = Object.entries(options).map(([name, spec]) => ({ left: leftOf(name, spec), says: spec.says }));
  const width = Math.max(0, ...rows.map(({ left }) => left.length));
  const lines = rows.map(({ left, says }) => `  ${left.padEnd(width)}   ${says}`);
  return [`orchd ${call}`, about, lines.join('\n'), `Examples:\n${indented(examples)}`]
    .filter((part) => part !== '')
    .join('\n\n');
}

function leftOf(name: string, { type, value, choices, multiple }: OptionSpec): string {
  if (type === 'boolean') return `--${name}`;
  return `--${name} ${value ?? choices?.join('|') ?? 'VALUE'}${multiple ? ' …' : ''}`;
}

const indented = (lines: readonly string[]): string => lines.map((line) => `  ${line}`).join('\n');
