/** The options of `orchd token create` for virtual keys: models, and a budget. */
import { isTimeZone } from '../kit/window.ts';
import type { TokenGrant } from '../wire/tokens.ts';
import { choiceOf, flagOf, textOf } from './arguments.ts';
import { type CliArguments, UsageError } from './command.ts';

const WINDOWS = ['hour', 'day', 'week', 'month', 'total'] as const;

export const GRANT_OPTIONS = {
  models: {
    type: 'string',
    value: 'A,B*,…',
    help: 'the only models it may use: names, or their beginnings with * at the end',
  },
  budget: {
    type: 'string',
    value: 'AMOUNT',
    help: 'what its jobs may cost, in the currency, such as 25 or 0.50',
  },
  window: { type: 'string', choices: WINDOWS, help: 'when the budget starts anew; total by default: never' },
  'time-zone': {
    type: 'string',
    value: 'ZONE',
    help: 'of the window, such as Europe/Berlin; UTC by default',
  },
  hard: { type: 'boolean', help: 'the budget is never exceeded; otherwise it only warns' },
} as const;

export function grantOf({ values }: CliArguments): TokenGrant {
  const models = textOf(values, 'models')
    ?.split(',')
    .map((name) => name.trim());
  const budget = textOf(values, 'budget');
  const window = choiceOf(values, 'window', WINDOWS);
  const zone = textOf(values, 'time-zone');
  const hard = flagOf(values, 'hard');
  if (models?.some((name) => name === '' || name.slice(0, -1).includes('*')))
    throw new UsageError('--models is a list of names with commas; a * may only be at the end of one.');
  if (budget === undefined && (window !== undefined || zone !== undefined || hard))
    throw new UsageError('--window, --time-zone and --hard need a --budget.');
  if (zone !== undefined && (window === undefined || window === 'total'))
    throw new UsageError('--time-zone needs a --window.');
  if (zone !== undefined && !isTimeZone(zone)) throw new UsageError(`"${zone}" is not a time zone.`);
  return {
    ...(models && { models }),
    ...(budget !== undefined && { cost_budget: millionthsOf(budget) }),
    ...(window !== undefined && { window }),
    ...(zone !== undefined && { time_zone: zone }),
    ...(hard && { hard }),
  };
}

/** Exact: at most six decimals, and no number that could be rounded. */
function millionthsOf(text: string): number {
  const [, whole, decimals = ''] = /^(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  if (whole === undefined)
    throw new UsageError(`--budget: "${text}" is not an amount such as 25 or 0.50 with at most 6 decimals.`);
  return Number(`${whole}${decimals.padEnd(6, '0')}`);
}
