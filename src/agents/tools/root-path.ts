/** A path below the root folder of the file tools, from the text that a model wrote. */

export interface RootPath {
  /** The names from the root down; none for the root itself. */
  readonly names: readonly string[];
  /** The path as it is told to the model. */
  readonly text: string;
}

const MAX_PATH_CHARS = 1000;
const MAX_LEVELS = 64;

export const ROOT: RootPath = { names: [], text: '.' };

/** Throws for a path that is absolute or could lead out of the root. Empty parts and `.` are left out. */
export function rootPath(text: string): RootPath {
  if (text.includes('\0')) throw new Error('a path may not contain a zero byte');
  if (text.length > MAX_PATH_CHARS) throw new Error(`a path may have at most ${MAX_PATH_CHARS} characters`);
  if (text.startsWith('/'))
    throw new Error(
      'a path must begin at the root folder, without a leading "/": for example notes/today.txt',
    );
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw new Error('a path may not contain ".."');
  if (names.length > MAX_LEVELS) throw new Error(`a path may have at most ${MAX_LEVELS} parts`);
  return pathOf(names);
}

export const childPath = ({ names }: RootPath, name: string): RootPath => pathOf([...names, name]);

export const parentPath = ({ names }: RootPath): RootPath => pathOf(names.slice(0, -1));

const pathOf = (names: readonly string[]): RootPath =>
  names.length === 0 ? ROOT : { names, text: names.join('/') };
