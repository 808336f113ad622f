/** Makes text safe for a terminal, and colours it. */
import { styleText } from 'node:util';
import type { JobState } from '../../model/states.ts';
import type { Terminal } from '../command.ts';

const CONTROLS = /[^\P{Cc}\n\t]/gu;

/** Replaces control characters by visible ones: text of jobs and backends may contain sequences that control the terminal. */
export function harmless(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u{fffd}';
  });
}

/** Like harmless(), with all white space as single spaces. */
export const oneLine = (text: string): string => harmless(text).replace(/\s+/g, ' ').trim();

const COLOURS = {
  queued: 'yellow',
  claimed: 'cyan',
  running: 'cyan',
  stale: 'magenta',
  failed: 'red',
  dead: 'red',
  succeeded: 'green',
  cancelled: 'gray',
} as const satisfies Record<JobState, string>;

export function paintState(state: JobState, text: string, terminal: Terminal): string {
  // A newer server may have states that are not in the table.
  const colour = COLOURS[state] as (typeof COLOURS)[JobState] | undefined;
  return terminal.isPerson && colour ? styleText(colour, text, { validateStream: false }) : text;
}
