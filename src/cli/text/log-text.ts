/** A line of the log as a person reads it. */
import { oneLine } from './screen.ts';

/** What only programs ask for: a person has the sentence, and finds the rest by the job. */
const FOR_PROGRAMS = ['timestamp', 'level', 'message', 'app', 'actor', 'correlation_id', 'event'];

/**
 * From the line that the logger made: what it does not let through, and how long a text may be, is the same in both
 * forms then.
 */
export function logText(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>;
  const { timestamp, level, message, backend, worker_id } = fields;
  const time = new Date(timestamp as string).toTimeString().slice(0, 8);
  const facts = Object.keys(fields)
    .filter((name) => !FOR_PROGRAMS.includes(name) && !(name === 'worker_id' && worker_id === backend))
    .map((name) => `${name} ${fields[name]}`)
    .join(', ');
  const words = [time, level === 'info' ? '' : level, message, facts && `(${facts})`];
  return `${oneLine(words.filter(Boolean).join(' '))}\n`;
}
