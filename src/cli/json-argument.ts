/** Reads the value of an option from the command line, from a file (`@FILE`) or from standard input (`-`). */
import { readFile, stat } from 'node:fs/promises';
import { UsageError } from './command.ts';

/** Larger than any request that a server accepts; keeps a wrong file from filling the memory. */
const MAX_BYTES = 64 * 2 ** 20;

/** The JSON value of `TEXT`, `@FILE` or `-`. */
export async function jsonOf(option: string, argument: string): Promise<unknown> {
  const text =
    argument === '-'
      ? await standardInput()
      : argument.startsWith('@')
        ? await fileText(argument.slice(1))
        : argument;
  try {
    return JSON.parse(text);
  } catch (error) {
    const hint = argument === text ? ` A text must be in quotes to be JSON: '"…"'.` : '';
    throw new UsageError(`${option} is not JSON: ${(error as Error).message}.${hint}`);
  }
}

export async function standardInput(): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of process.stdin as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > MAX_BYTES) throw tooLarge('standard input');
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

export async function fileText(path: string): Promise<string> {
  try {
    if ((await stat(path)).size > MAX_BYTES) throw tooLarge(`"${path}"`);
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`"${path}" cannot be read (${(error as NodeJS.ErrnoException).code ?? error}).`);
  }
}

const tooLarge = (what: string): UsageError =>
  new UsageError(`${what} is larger than ${MAX_BYTES / 2 ** 20} MiB.`);

/** The value in a file in YAML or JSON (- for standard input), and how messages name the file. */
export async function yamlFile(file: string): Promise<{ readonly value: unknown; readonly label: string }> {
  const label = file === '-' ? 'standard input' : file;
  const text = file === '-' ? await standardInput() : await fileText(file);
  const { parse } = await import('yaml');
  try {
    return { value: parse(text), label };
  } catch {
    throw new UsageError(`${label} is neither YAML nor JSON.`);
  }
}
