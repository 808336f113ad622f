/** What the commands that run until they are stopped have in common. */
import { LineOutput } from '../kit/env/line-output.ts';
import { createLogger, type Logger, type LogLevel } from '../kit/logger.ts';
import { logText } from './log-text.ts';

const STDOUT = 1;
const LINGER_MS = 250;

/** Their log goes to standard output, for programs as JSON; nothing of it is lost at the end. */
export function daemonLogger(level?: LogLevel): Logger {
  const log = new LineOutput(STDOUT);
  const forPerson = process.stdout.isTTY === true;
  process.once('exit', () => log.flushNow());
  return createLogger({
    write: (line) => log.write(forPerson ? logText(line) : line),
    now: () => Date.now(),
    ...(level && { level }),
  });
}

/** Whatever a part has left behind must not keep the process alive: an idle one ends before this. */
export function ended(code: number): number {
  setTimeout(() => process.exit(code), LINGER_MS).unref();
  return code;
}
