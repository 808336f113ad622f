/** JSON lines that are on stable storage when add() returns: what stands for another machine must not forget. */
import fs from 'node:fs';

export class AppendFile {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = fs.openSync(path, 'a', 0o600);
  }

  add(line: object): void {
    fs.writeSync(this.#fd, `${JSON.stringify(line)}\n`);
    fs.fsyncSync(this.#fd);
  }

  close(): void {
    fs.closeSync(this.#fd);
  }
}

/** Every whole line; a kill may have cut the last one short. */
export function readLines<T>(path: string): T[] {
  if (!fs.existsSync(path)) return [];
  const text = fs.readFileSync(path, 'utf8');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
