/**
 * A block of lines at the end of a terminal that is drawn again in place. It is written in one piece and without clearing
 * first, so that it does not flicker; the cursor stays visible and below the block, so that there is nothing to restore.
 */
import { cutTo, forTerminal } from './text/screen.ts';

const CLEAR_REST_OF_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
const up = (lines: number): string => (lines === 0 ? '' : `\u001b[${lines}A`);

export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

export class Block {
  readonly #write: (text: string) => void;
  #lines = 0;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  draw(text: string | undefined, { columns, rows }: ScreenSize): void {
    if (text === undefined) {
      // Removes what the terminal itself has written behind the block, such as ^C.
      if (this.#lines > 0) this.#write(`\r${CLEAR_REST_OF_LINE}`);
      this.#lines = 0;
      return;
    }
    // A line that wraps, or that has scrolled out of sight, could not be drawn over.
    const lines = text.split('\n').map((line) => cutTo(line, columns - 1));
    const fitting = lines.length < rows ? lines : [...lines.slice(0, rows - 2), '…'];
    const drawn = fitting.map((line) => `${forTerminal(line)}${CLEAR_REST_OF_LINE}\n`).join('');
    this.#write(`\r${up(this.#lines)}${drawn}${CLEAR_BELOW}`);
    this.#lines = fitting.length;
  }
}
