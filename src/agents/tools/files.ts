/** Tools for the files below one folder: list, read, search and, if allowed, write. root-folder.ts keeps them inside. */

import { isContinuation } from '../../kit/cut-text.ts';
import type { Random } from '../../kit/env/env.ts';
import { type FolderEntry, RootFolder } from './root-folder.ts';
import { rootPath } from './root-path.ts';
import { SEARCH_LIMITS, type SearchLimits, searchFiles } from './search.ts';
import { decodedText, wholeLength } from './text-body.ts';
import type { JsonSchema, Tool, ToolContext } from './tool.ts';

export interface FileToolsOptions {
  /** The folder that the tools see; nothing outside of it can be read or written. */
  readonly root: string;
  readonly random: Random;
  /** Adds the tool `write_file`. */
  readonly mayWrite?: boolean;
  readonly searchLimits?: Partial<SearchLimits>;
  /** Entries of one folder that are read; 10,000 by default. */
  readonly maxFolderEntries?: number;
}

const TIMEOUT_MS = 30_000;
const MAX_LISTED = 500;
const USUAL_LISTED = 200;
const MAX_READ_BYTES = 64 * 1024;
const USUAL_READ_BYTES = 32 * 1024;
/** Room for the note behind the text of a file. */
const NOTE_BYTES = 1024;
const MAX_QUERY_CHARS = 200;

/** Throws INVALID_PARAMS if the root is no folder. */
export function fileTools(options: FileToolsOptions): readonly Tool[] {
  const { root, random, mayWrite = false, searchLimits, maxFolderEntries } = options;
  const folder = new RootFolder(root, random, maxFolderEntries);
  const limits = { ...SEARCH_LIMITS, ...searchLimits };
  const tools = [listTool(folder), readTool(folder), searchTool(folder, limits)];
  return mayWrite ? [...tools, writeTool(folder)] : tools;
}

const FOLDER_PATH = {
  type: 'string',
  description: 'A folder, such as notes/2026; the root folder if left out.',
};
const FILE_PATH = { type: 'string', description: 'A file, such as notes/today.txt.' };

const object = (properties: JsonSchema, required: readonly string[] = []): JsonSchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

function listTool(root: RootFolder): Tool {
  return {
    name: 'list_files',
    description: 'Lists the files and folders of a folder, with the sizes of files.',
    parameters: object({
      path: FOLDER_PATH,
      limit: { type: 'integer', minimum: 1, maximum: MAX_LISTED, description: `${USUAL_LISTED} by default.` },
    }),
    effect: 'pure',
    category: 'read',
    timeoutMs: TIMEOUT_MS,
    run: async (
      { path = '', limit = USUAL_LISTED }: { path?: string; limit?: number },
      { signal }: ToolContext,
    ) => {
      const folder = rootPath(path);
      const { entries, isWhole } = await root.list(folder, signal);
      const listed = entries.slice(0, limit);
      const sizes = root.sizes(
        folder,
        listed.map(({ name }) => name),
      );
      return {
        path: folder.text,
        entries: listed.map((entry, at) => described(entry, sizes[at])),
        ...(listed.length < entries.length && { not_shown: entries.length - listed.length }),
        ...(!isWhole && {
          note: `the folder has more than ${root.maxEntries} entries; the others were not read`,
        }),
      };
    },
  };
}

const described = ({ name, kind }: FolderEntry, size: number | undefined) => ({
  name,
  kind,
  ...(size !== undefined && { size_bytes: size }),
});

function readTool(root: RootFolder): Tool {
  return {
    name: 'read_file',
    description:
      'Reads a text file, or a part of it. A note at the end says if there is more, and with which offset to go on.',
    parameters: object(
      {
        path: FILE_PATH,
        offset: {
          type: 'integer',
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'Where to begin, in bytes.',
        },
        max_bytes: {
          type: 'integer',
          minimum: 16,
          maximum: MAX_READ_BYTES,
          description: `${USUAL_READ_BYTES} by default.`,
        },
      },
      ['path'],
    ),
    effect: 'pure',
    category: 'read',
    timeoutMs: TIMEOUT_MS,
    maxOutputBytes: MAX_READ_BYTES + NOTE_BYTES,
    run: ({
      path,
      offset = 0,
      max_bytes = USUAL_READ_BYTES,
    }: {
      path: string;
      offset?: number;
      max_bytes?: number;
    }) => readText(root, path, offset, max_bytes),
  };
}

async function readText(root: RootFolder, path: string, offset: number, maxBytes: number): Promise<string> {
  const file = rootPath(path);
  const { bytes, size } = await root.read(file, offset, maxBytes);
  if (offset > 0 && offset >= size) return `[the file ends at byte ${size}]`;
  const isCut = offset + bytes.length < size;
  const start = offset === 0 ? 0 : firstWhole(bytes);
  const end = isCut ? wholeLength(bytes) : bytes.length;
  const text = end < start ? undefined : decodedText(bytes.subarray(start, end));
  if (text === undefined)
    throw new Error(`"${file.text}" is a binary file of ${size} bytes, or no text in UTF-8`);
  if (!isCut && offset === 0) return text;
  const next = isCut ? `go on with offset ${offset + end}` : 'this is the end of the file';
  return `${text}\n[bytes ${offset + start} to ${offset + end} of ${size}; ${next}]`;
}

/** The first place where a character begins: an offset may be within one, which has at most three more bytes. */
function firstWhole(bytes: Uint8Array): number {
  let start = 0;
  while (start < 3 && start < bytes.length && isContinuation(bytes[start] as number)) start++;
  return start;
}

function searchTool(root: RootFolder, limits: SearchLimits): Tool {
  return {
    name: 'search_files',
    description: 'Finds the lines that contain a text, in the files of a folder and of all folders below it.',
    parameters: object(
      {
        text: {
          type: 'string',
          minLength: 1,
          maxLength: MAX_QUERY_CHARS,
          pattern: '^[^\\n]*$',
          description: 'Plain text within one line; no pattern.',
        },
        path: FOLDER_PATH,
        ignore_case: { type: 'boolean' },
      },
      ['text'],
    ),
    effect: 'pure',
    category: 'read',
    timeoutMs: TIMEOUT_MS,
    run: (
      { text, path = '', ignore_case = false }: { text: string; path?: string; ignore_case?: boolean },
      { signal }: ToolContext,
    ) => searchFiles(root, rootPath(path), { text, ignoreCase: ignore_case }, limits, signal),
  };
}

function writeTool(root: RootFolder): Tool {
  return {
    name: 'write_file',
    description: 'Creates a text file, or replaces its whole content. The folder of the file has to exist.',
    parameters: object({ path: FILE_PATH, text: { type: 'string' } }, ['path', 'text']),
    effect: 'idempotent',
    category: 'write',
    timeoutMs: TIMEOUT_MS,
    run: async ({ path, text }: { path: string; text: string }) => {
      // A slash at the end asks for a folder.
      if (/(^|\/)\.?$/.test(path)) throw new Error('"path" must be that of a file, not of a folder');
      const file = rootPath(path);
      const bytes = Buffer.from(text);
      await root.write(file, bytes);
      return `wrote ${bytes.length} bytes to "${file.text}"`;
    },
  };
}
