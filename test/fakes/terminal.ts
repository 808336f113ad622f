/** The terminal port of the command line, over streams that only remember what was written. */
import type { Terminal } from '../../src/cli/command.ts';
import { terminalOf } from '../../src/cli/terminal.ts';

export interface FakeTerminal {
  readonly terminal: Terminal;
  /** What was written to standard output and to standard error. */
  readonly written: { out: string; err: string };
}

export function fakeTerminal({ isTTY = false, noColour = false } = {}): FakeTerminal {
  const written = { out: '', err: '' };
  const stream = (name: 'out' | 'err') =>
    ({
      isTTY,
      columns: undefined,
      write: (text: string) => {
        written[name] += text;
        return true;
      },
    }) as unknown as NodeJS.WriteStream;
  return { terminal: terminalOf(stream('out'), stream('err'), noColour), written };
}
