/**
 * Describes a thrown value for the log by its class, its code and its stack frames. The message is left out, because it
 * may quote a caller's text.
 */
const MAX_FRAMES = 8;
const CODE = /^[A-Za-z0-9_]{1,64}$/;

export function describeThrown(thrown: unknown): string {
  if (!(thrown instanceof Error)) return `a ${thrown === null ? 'null' : typeof thrown} was thrown`;
  const { code } = thrown as { code?: unknown };
  const kind = thrown.constructor.name;
  const named = typeof code === 'string' && CODE.test(code) ? `${kind} ${code}` : kind;
  return [named, ...framesOf(thrown)].join(' ');
}

/** The frames of the stack after the message, so that a message that looks like frames is left out too. */
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
