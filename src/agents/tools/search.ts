/** Searches the files below a folder for a text, within bounds. */

import type { FolderEntry, RootFolder } from './root-folder.ts';
import { childPath, type RootPath } from './root-path.ts';
import { decodedText } from './text-body.ts';

export interface SearchLimits {
  readonly maxMatches: number;
  readonly maxFiles: number;
  /** Only this much of the beginning of each file is searched. */
  readonly maxFileBytes: number;
  /** The search ends when this much was read from all files together. */
  readonly maxBytes: number;
  readonly maxFolders: number;
  /** Levels of folders below the one that is searched. */
  readonly maxLevels: number;
}

export const SEARCH_LIMITS: SearchLimits = {
  maxMatches: 50,
  maxFiles: 5000,
  maxFileBytes: 2 ** 20,
  maxBytes: 64 * 2 ** 20,
  maxFolders: 2000,
  maxLevels: 32,
};

export interface SearchQuery {
  readonly text: string;
  readonly ignoreCase: boolean;
}

export interface Match {
  readonly path: string;
  readonly line: number;
  /** The line, or a part of a long one. */
  readonly text: string;
}

export interface SearchResult {
  readonly matches: readonly Match[];
  readonly files_searched: number;
  /** The notes say what was not searched, so that the model does not take silence for absence. */
  readonly notes: readonly string[];
}

const MAX_LINE_CHARS = 200;
const CHARS_BEFORE_MATCH = 60;

export async function searchFiles(
  root: RootFolder,
  from: RootPath,
  query: SearchQuery,
  limits: SearchLimits,
  signal: AbortSignal,
): Promise<SearchResult> {
  const search = new Search(root, query, limits, signal);
  await search.folders(from);
  return search.result();
}

class Search {
  readonly #root: RootFolder;
  readonly #query: SearchQuery;
  readonly #limits: SearchLimits;
  readonly #signal: AbortSignal;
  readonly #matches: Match[] = [];
  readonly #notes = new Set<string>();
  #files = 0;
  #bytes = 0;
  #skipped = 0;

  constructor(root: RootFolder, query: SearchQuery, limits: SearchLimits, signal: AbortSignal) {
    this.#root = root;
    this.#query = query;
    this.#limits = limits;
    this.#signal = signal;
  }

  result(): SearchResult {
    const notes = [...this.#notes];
    if (this.#skipped > 0)
      notes.push(`${this.#skipped} entries were not searched: binary, links, or not readable`);
    return { matches: this.#matches, files_searched: this.#files, notes };
  }

  /** Searches a folder and those below it, until a bound is reached. Only a fault of the first folder is an error. */
  async folders(from: RootPath): Promise<void> {
    const { maxFolders, maxLevels } = this.#limits;
    const waiting = [from];
    let seen = 0;
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      if (++seen > maxFolders) return this.#note(`only ${maxFolders} folders were searched`);
      const entries = await this.#entries(next, seen === 1);
      for (const { name, kind } of entries) {
        if (kind === 'folder') continue;
        if (!(await this.#entry(childPath(next, name), kind))) return;
      }
      const below = entries.filter(({ kind }) => kind === 'folder').map(({ name }) => childPath(next, name));
      if (next.names.length - from.names.length < maxLevels) waiting.push(...below.reverse());
      else if (below.length > 0) this.#note(`folders more than ${maxLevels} levels down were not searched`);
    }
  }

  #note(text: string): void {
    this.#notes.add(text);
  }

  async #entries(folder: RootPath, isFirst: boolean): Promise<readonly FolderEntry[]> {
    try {
      const { entries, isWhole } = await this.#root.list(folder, this.#signal);
      if (!isWhole) this.#note(`"${folder.text}" has so many entries that only some were searched`);
      return entries;
    } catch (error) {
      this.#signal.throwIfAborted();
      if (isFirst) throw error;
      this.#skipped++;
      return [];
    }
  }

  /** Returns whether the search goes on. */
  async #entry(path: RootPath, kind: FolderEntry['kind']): Promise<boolean> {
    this.#signal.throwIfAborted();
    const { maxFiles, maxBytes, maxMatches } = this.#limits;
    if (kind !== 'file') {
      this.#skipped++;
      return true;
    }
    if (this.#files === maxFiles) this.#note(`only ${maxFiles} files were searched`);
    else if (this.#bytes >= maxBytes) this.#note(`only ${maxBytes} bytes were searched`);
    else {
      const text = await this.#text(path);
      if (text !== undefined) this.#find(path, text);
      if (this.#matches.length < maxMatches) return true;
      this.#note(`the search ended after ${maxMatches} matches`);
    }
    return false;
  }

  /** The beginning of a file; undefined if it is binary or cannot be read. */
  async #text(path: RootPath): Promise<string | undefined> {
    const { maxFileBytes } = this.#limits;
    const range = await this.#root.read(path, 0, maxFileBytes).catch(() => undefined);
    this.#bytes += range?.bytes.length ?? 0;
    const isCut = range !== undefined && range.size > range.bytes.length;
    const text = range && decodedText(range.bytes, isCut);
    if (text === undefined) this.#skipped++;
    else {
      this.#files++;
      if (isCut) this.#note(`of files larger than ${maxFileBytes} bytes only the beginning was searched`);
    }
    return text;
  }

  /** Adds the lines of a file that contain the text, each once. */
  #find(path: RootPath, content: string): void {
    const { text, ignoreCase } = this.#query;
    const searched = ignoreCase ? content.toLowerCase() : content;
    const wanted = ignoreCase ? text.toLowerCase() : text;
    // A few letters change their length with their case: then the places in the two texts differ.
    const shown = searched.length === content.length ? content : searched;
    let line = 1;
    let counted = 0;
    for (let at = searched.indexOf(wanted); at >= 0; ) {
      if (this.#matches.length === this.#limits.maxMatches) return;
      for (
        let end = searched.indexOf('\n', counted);
        end >= 0 && end < at;
        end = searched.indexOf('\n', counted)
      ) {
        line++;
        counted = end + 1;
      }
      const end = searched.indexOf('\n', at);
      const lineEnd = end < 0 ? searched.length : end;
      this.#matches.push({ path: path.text, line, text: excerpt(shown, counted, at, lineEnd) });
      at = end < 0 ? -1 : searched.indexOf(wanted, end);
    }
  }
}

/** The line from `start` to `end`, or the part around `at` of a long one. */
function excerpt(text: string, start: number, at: number, end: number): string {
  if (end - start <= MAX_LINE_CHARS) return text.slice(start, end).toWellFormed();
  const from = Math.max(start, at - CHARS_BEFORE_MATCH);
  const to = Math.min(end, from + MAX_LINE_CHARS);
  return `${from > start ? '…' : ''}${text.slice(from, to).toWellFormed()}${to < end ? '…' : ''}`;
}
