/** The texts of blobs that were read or written last. */
import type { BlobRef } from '../model/body.ts';

/** The characters of all texts together. */
const MAX_CHARS = 8 * 2 ** 20;
/** A longer text is not kept: it would take the place of too many others. */
const MAX_TEXT_CHARS = MAX_CHARS / 8;

export class RecentTexts {
  /** By the JSON text of the reference; the least recently used first. */
  readonly #texts = new Map<string, string>();
  #chars = 0;
  #clears = 0;

  get(ref: BlobRef): string | undefined {
    const name = JSON.stringify(ref);
    const text = this.#texts.get(name);
    if (text === undefined) return undefined;
    this.#texts.delete(name);
    this.#texts.set(name, text);
    return text;
  }

  /** Forgets all texts: those of a session that was deleted must not be read here. */
  clear(): void {
    this.#texts.clear();
    this.#chars = 0;
    this.#clears++;
  }

  /** To be asked before a text is sealed or opened; `add` refuses the text if `clear` was called since. */
  get clears(): number {
    return this.#clears;
  }

  add(ref: BlobRef, text: string, clears: number): void {
    if (text.length > MAX_TEXT_CHARS || clears !== this.#clears) return;
    const name = JSON.stringify(ref);
    if (this.#texts.has(name)) return;
    this.#texts.set(name, text);
    this.#chars += text.length;
    for (const [oldest, dropped] of this.#texts) {
      if (this.#chars <= MAX_CHARS) return;
      this.#texts.delete(oldest);
      this.#chars -= dropped.length;
    }
  }
}
