/** The log as text for people: one short line per event. */
import { durationText } from './duration.ts';
import { oneLine } from './screen.ts';

/** Fields that are not shown to people: the message contains them, or only programs need them. */
const FOR_PROGRAMS = ['timestamp', 'level', 'message', 'app', 'actor', 'correlation_id', 'event'];

type Fields = Readonly<Record<string, unknown>>;

/**
 * Made from the JSON line of the logger, so that both forms leave out the same fields and cut texts at the same length.
 */
export function logText(line: string): string {
  const fields = JSON.parse(line) as Fields;
  const { timestamp, level } = fields;
  const time = new Date(timestamp as string).toTimeString().slice(0, 8);
  const words = [time, level === 'info' ? '' : level, jobMove(fields) ?? sentence(fields)];
  return `${oneLine(words.filter(Boolean).join(' '))}\n`;
}

/** The message, followed by its fields in parentheses. */
function sentence(fields: Fields): string {
  const { message, backend, worker_id } = fields;
  const facts = Object.keys(fields)
    .filter((name) => !FOR_PROGRAMS.includes(name) && !(name === 'worker_id' && worker_id === backend))
    .map((name) => `${name} ${fields[name]}`)
    .join(', ');
  return [message, facts && `(${facts})`].filter(Boolean).join(' ');
}

/** The move of a job, such as `j1 claimed by gpu/w-5 (attempt 1)`; undefined for any other line. */
function jobMove(fields: Fields): string | undefined {
  const { job_id, event } = fields;
  const { type, to } = (event ?? {}) as { type?: string; to?: string };
  if (job_id === undefined || to === undefined) return undefined;
  if (type === 'admission') return `${job_id} admitted${ahead(fields)}`;
  return type === 'state_transition' ? `${job_id} ${moveText(to, fields)}` : undefined;
}

function moveText(to: string, fields: Fields): string {
  const { backend, error_code, error_reason, reason, execution_latency_ms: ms } = fields;
  const on = backend === undefined ? '' : ` on ${backend}`;
  const took = typeof ms === 'number' ? ` after ${durationText(ms)}` : '';
  const why = error_reason === undefined ? '' : ` (${error_reason})`;
  const code = error_code === undefined ? '' : `: ${error_code}${why}`;
  switch (to) {
    case 'queued':
      return `queued again: ${reason}${ahead(fields)}`;
    case 'claimed':
      return `claimed by ${backend}${attempt(fields)}`;
    case 'stale':
      return `outcome unknown${on}`;
    default:
      return `${to}${on}${took}${code}`;
  }
}

const ahead = ({ queue_position: jobs }: Fields): string =>
  typeof jobs === 'number' && jobs > 0 ? ` (${jobs} ahead)` : '';

/** The correlation id of an attempt ends in its number. */
function attempt({ correlation_id: id }: Fields): string {
  const number = /\.(\d+)$/.exec(String(id ?? ''))?.[1];
  return number === undefined ? '' : ` (attempt ${number})`;
}
