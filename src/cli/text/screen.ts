/** Text as it may be shown to a person. */
import { styleText } from 'node:util';
import type { JobState } from '../../model/states.ts';
import type { Terminal } from '../command.ts';

const CONTROLS = /[^\P{Cc}\n\t]/gu;

/** What others wrote may hold sequences that rule the terminal: they are made visible instead. */
export function harmless(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(CONTROLS, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\u{fffd}';
  });
}

/** The same, in one line. */
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
  // A newer server may know states that are not in the table.
  const colour = COLOURS[state] as (typeof COLOURS)[JobState] | undefined;
  return terminal.isPerson && colour ? styleText(colour, text, { validateStream: false }) : text;
}
