/**
 * Turns looks at a text that grows in a page into pieces that are only ever appended.
 *
 * Pages rewrite the end of what they show: a cursor, or markup that is not closed yet. So a piece is emitted when two
 * looks in a row agree about it. What was emitted cannot be taken back: if the page rewrites that too, nothing more is
 * emitted, and only the result, which is the text at the end, is right.
 */
export class GrowingAnswer {
  readonly #emit: (text: string) => void;
  #emitted = '';
  #last = '';
  #isRewritten = false;

  constructor(emit: (text: string) => void) {
    this.#emit = emit;
  }

  /** What the page shows now. */
  look(text: string): void {
    const stable = commonPrefix(this.#last, text);
    this.#last = text;
    this.#add(stable);
  }

  /** The text with which the answer ends. */
  end(text: string): void {
    this.#add(text);
  }

  #add(text: string): void {
    if (this.#isRewritten || text.length <= this.#emitted.length) {
      this.#isRewritten ||= !this.#emitted.startsWith(text);
      return;
    }
    if (!text.startsWith(this.#emitted)) {
      this.#isRewritten = true;
      return;
    }
    this.#emit(text.slice(this.#emitted.length));
    this.#emitted = text;
  }
}

function commonPrefix(a: string, b: string): string {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a.charCodeAt(length) === b.charCodeAt(length)) length++;
  // A character outside of the basic plane has two halves, which stay together.
  const isHalf = length > 0 && (a.charCodeAt(length - 1) & 0xfc00) === 0xd800;
  return a.slice(0, isHalf ? length - 1 : length);
}
