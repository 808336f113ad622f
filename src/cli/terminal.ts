/**
 * The terminal of this process: the only place of the command line that writes to standard output and standard error.
 * Whatever it writes to a terminal is made harmless here, so no command can forget it.
 */
import { once } from 'node:events';
import { Block } from './block.ts';
import type { Terminal } from './command.ts';
import { forTerminal, harmless, oneLine } from './text/screen.ts';

const CLEAR_LINE = '\r\u001b[2K';

type Stream = Pick<NodeJS.WriteStream, 'write' | 'isTTY' | 'columns' | 'rows' | 'once'>;

export function terminalOf(stdout: Stream, stderr: Stream, noColour: boolean): Terminal {
  const block = new Block((text) => void stdout.write(text));
  return {
    isPerson: stdout.isTTY === true && !noColour,
    isTerminal: stdout.isTTY === true,
    showsStatus: stderr.isTTY === true,
    get columns() {
      return stdout.columns;
    },
    print: (text) => void stdout.write(`${forTerminal(text)}\n`),
    printData: (text) => void stdout.write(`${stdout.isTTY ? forTerminal(text) : text}\n`),
    redraw(text) {
      if (stdout.isTTY) block.draw(text, { columns: stdout.columns || 80, rows: stdout.rows || 24 });
    },
    complain: (text) => void stderr.write(`${forTerminal(text)}\n`),
    async write(text) {
      if (!stdout.write(stdout.isTTY ? harmless(text) : text))
        await once(stdout as NodeJS.WriteStream, 'drain');
    },
    status(text) {
      if (stderr.isTTY)
        stderr.write(CLEAR_LINE + (text === undefined ? '' : fitting(asked(text), stderr.columns)));
    },
  };
}

/** On one line; a space at its end stays, so that what is typed after a question stands apart from it. */
const asked = (text: string): string => `${oneLine(text)}${text.endsWith(' ') ? ' ' : ''}`;

/** Cuts a line to the width of the terminal: one that wraps could not be overwritten. */
export function fitting(text: string, columns: number | undefined): string {
  // Some terminals do not report their width.
  const width = (columns || 80) - 1;
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}
