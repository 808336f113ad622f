/**
 * A module: each exported function of the source tree SOURCE without a documentation comment becomes a job that writes
 * one. A function that has changed is new work, because its text is part of the key. See docs/modules.md for the
 * configuration.
 */
import { createHash } from 'node:crypto';
import { access, glob, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const root = resolve(process.env['SOURCE'] ?? 'src');
const FUNCTION = /^export (?:async )?function\*? (\w+)/;
const MAX_LINES = 80;

interface Proposal {
  readonly key: string;
  readonly prompt: string;
  readonly max_tokens: number;
  readonly tags: Readonly<Record<string, string>>;
}

export async function* scan(): AsyncGenerator<Proposal> {
  // A folder that does not exist has no files either: say so.
  await access(root);
  for await (const file of glob('**/*.ts', { cwd: root })) {
    const lines = (await readFile(join(root, file), 'utf8')).split('\n');
    for (const [at, line] of lines.entries()) {
      const name = FUNCTION.exec(line)?.[1];
      if (name === undefined || lines[at - 1]?.trimEnd().endsWith('*/')) continue;
      const text = functionFrom(lines, at);
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 16);
      yield {
        key: `${file}:${name}:${hash}`.slice(-255),
        prompt: `Write a documentation comment for this TypeScript function. Answer with the comment only.\n\n${text}`,
        max_tokens: 300,
        tags: { function: name },
      };
    }
  }
}

/** The lines up to the closing brace of the function, which stands alone in formatted code. */
function functionFrom(lines: readonly string[], from: number): string {
  const end = lines.findIndex((line, at) => at > from && line === '}');
  const to = end < 0 ? from + 1 : Math.min(end + 1, from + MAX_LINES);
  return lines.slice(from, to).join('\n');
}
