/** A real terminal: a command in a window of tmux, what is typed there, and what its screen shows. */
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { needDebian } from './debian.ts';

const POLL_MS = 50;

export interface TmuxWindow {
  /** Types a line and the return key. */
  line(text: string): void;
  /** Presses a key by the name that tmux has for it, such as `C-d`. */
  key(name: string): void;
  /** The screen as soon as it matches; it is never compared with an instant. */
  shows(pattern: RegExp): Promise<string>;
  /** Settles when the process in the window has ended. */
  ended(): Promise<void>;
  /** The process that runs in the window. */
  readonly pid: number;
  close(): void;
}

export async function tmuxWindow(
  t: TestContext,
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<TmuxWindow> {
  const tmux = await needDebian('tmux');
  const socket = `orchd-test-${randomBytes(6).toString('hex')}`;
  const run = (...args: string[]): string =>
    execFileSync(tmux, ['-L', socket, '-f', '/dev/null', ...args], { encoding: 'utf8' });
  const variables = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
  run('new-session', '-d', '-s', 'w', '-x', '120', '-y', '50', ...variables, '--', ...argv);
  run('set-option', '-t', 'w', 'remain-on-exit', 'on');
  const close = (): void => void execFile(tmux, ['-L', socket, 'kill-server'], () => undefined);
  t.after(close);
  const screen = (): string => run('capture-pane', '-p', '-J', '-S', '-', '-t', 'w');
  return {
    line: (text) => void run('send-keys', '-t', 'w', '-l', '--', `${text}\r`),
    key: (name) => void run('send-keys', '-t', 'w', name),
    shows: async (pattern) => {
      for (;;) {
        const shown = screen();
        if (pattern.test(shown)) return shown;
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    ended: async () => {
      while (run('display-message', '-p', '-t', 'w', '#{pane_dead}').trim() !== '1')
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    },
    pid: Number(run('display-message', '-p', '-t', 'w', '#{pane_pid}')),
    close,
  };
}
