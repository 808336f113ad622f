/** A line of the log as a person reads it. */
import { oneLine } from './screen.ts';

/**
 * From the line that the logger made: what it does not let through, and how long a text may be, is the same in both
 * forms then.
 */
export function logText(line: string): string {
  const { timestamp, level, message, app: _, event, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const time = new Date(timestamp as string).toTimeString().slice(0, 8);
  const { type, ...move } = (event ?? {}) as Record<string, unknown>;
  const rest = Object.entries({ ...fields, ...(type !== undefined && { event: type }), ...move });
  const facts = rest.map(([name, value]) => `${name} ${value}`).join(', ');
  const said = facts === '' ? message : `${message}: ${facts}`;
  return `${oneLine([time, level === 'info' ? '' : level, said].filter(Boolean).join(' '))}\n`;
}
