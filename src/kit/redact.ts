/**
 * What may be logged of something that was thrown: its kind, its code and where it was thrown. Not its message,
 * which may quote what a caller sent.
 */
const MAX_FRAMES = 8;
const CODE = /^[A-Za-z0-9_]{1,64}$/;

export function placeOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return `a ${thrown === null ? 'null' : typeof thrown} was thrown`;
  const { code } = thrown as { code?: unknown };
  const kind = thrown.constructor.name;
  const named = typeof code === 'string' && CODE.test(code) ? `${kind} ${code}` : kind;
  return [named, ...framesOf(thrown)].join(' ');
}

/** The lines of the stack below the message; a message that looks like such lines is no part of them. */
function framesOf({ stack, message }: Error): string[] {
  const end = (stack ?? '').indexOf(message) + message.length;
  if (stack === undefined || end < message.length) return [];
  return stack
    .slice(end)
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, MAX_FRAMES)
    .map((line) => line.trim());
}
