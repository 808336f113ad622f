/** Makes text safe for a terminal, and colours it. */
import type { JobState } from '../../model/states.ts';
import type { Terminal } from '../command.ts';

/**
 * Control characters (C0, DEL, C1), characters that change the direction of text, and characters without a shape of
 * their own: they move the cursor, start sequences that control the terminal, or make text look like another.
 */
const UNSAFE = /[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u2028\u2029\ufff9-\ufffb]/gu;

/** What lines, many languages and emoji need: line feed, tab, the two joiners, and the variation selectors. */
const NEEDED = /[\n\t]|\u200c|\u200d|[\ufe00-\ufe0f]/;

/**
 * Replaces characters that control a terminal by visible ones. Text of servers, jobs, backends and files may contain
 * them; the terminal port does this with everything that it writes, so callers need it only to measure text.
 */
export function harmless(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(UNSAFE, (character) => {
    if (NEEDED.test(character)) return character;
    const code = character.codePointAt(0) as number;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code < 0xa0 ? '\u{fffd}' : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`;
  });
}

/** A line of JSON whose characters that control a terminal are escaped: the same value, safe to look at. */
export function harmlessJson(line: string): string {
  return line.replace(UNSAFE, (character) =>
    NEEDED.test(character)
      ? character
      : Array.from({ length: character.length }, (_, at) => hexEscape(character.charCodeAt(at))).join(''),
  );
}

const hexEscape = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`;

/** Like harmless(), with all white space as single spaces. */
export const oneLine = (text: string): string => harmless(text).replace(/\s+/g, ' ').trim();

/** The colours that commands use, with their numbers in a terminal's sequences. */
const COLOUR_CODES = { red: 31, green: 32, yellow: 33, magenta: 35, cyan: 36, gray: 90 } as const;
export type Colour = keyof typeof COLOUR_CODES;

const DEFAULT_COLOUR = 39;

/** Marks the colours of this process. Text from elsewhere cannot contain the mark, because it is random. */
const MARK = Array.from({ length: 4 }, () => 1000 + Math.floor(Math.random() * 9000)).join(';');
const MARKED = new RegExp(`(\\u001b\\[\\d+;${MARK}m)`);

const marked = (code: number): string => `\u001b[${code};${MARK}m`;

/** Colours text if a person reads it. `forTerminal` turns the colour into what a terminal understands. */
export const paint = (colour: Colour, text: string, { isPerson }: Pick<Terminal, 'isPerson'>): string =>
  isPerson ? marked(COLOUR_CODES[colour]) + text + marked(DEFAULT_COLOUR) : text;

/** harmless(), except for the colours of paint(). */
export function forTerminal(text: string): string {
  const parts = text.split(MARKED);
  // At odd places are the separators.
  return parts
    .map((part, at) => (at % 2 === 1 ? `${part.slice(0, part.indexOf(';'))}m` : harmless(part)))
    .join('');
}

/** Cuts a line to a number of characters; colours of paint() do not count, and end where the line is cut. */
export function cutTo(line: string, width: number): string {
  const parts = line.split(MARKED);
  const isMark = (at: number): boolean => at % 2 === 1;
  const length = parts.reduce((sum, part, at) => sum + (isMark(at) ? 0 : harmless(part).length), 0);
  if (length <= width) return line;
  let left = Math.max(0, width - 1);
  const cut = parts.map((part, at) => {
    if (isMark(at)) return part;
    const shown = harmless(part).slice(0, left);
    left -= shown.length;
    return shown;
  });
  return `${cut.join('')}…`;
}

const STATE_COLOURS = {
  queued: 'yellow',
  claimed: 'cyan',
  running: 'cyan',
  waiting: 'yellow',
  stale: 'magenta',
  failed: 'red',
  dead: 'red',
  succeeded: 'green',
  cancelled: 'gray',
} as const satisfies Record<JobState, Colour>;

export function paintState(state: JobState, text: string, terminal: Terminal): string {
  // A newer server may have states that are not in the table.
  const colour = STATE_COLOURS[state] as Colour | undefined;
  return colour ? paint(colour, text, terminal) : text;
}
