/** `orchd show ID` */
import type { AttemptView, JobView } from '../../model/http/jobs.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { flagOf, jobId, onlyWord } from '../given.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { durationText, instantText } from '../text/duration.ts';
import { adviceFor, nextStep, placeText, resultText, tookText } from '../text/job-text.ts';
import { harmless, oneLine, paintState } from '../text/screen.ts';

export const show: Command = {
  name: 'show',
  summary: 'Show everything about a job: attempts, error, result',
  usage: usageOf({
    call: 'show ID [OPTIONS]',
    about: 'Exit code: 0 whatever became of the job, 1 when there is no such job.',
    options: SERVER_OPTIONS,
    examples: ['orchd show $ID', 'orchd show $ID --json | jq .result'],
  }),
  options: SERVER_OPTIONS,
  async run(given, terminal) {
    const id = jobId(onlyWord(given.positionals, 'job'));
    const job = await connect(given).get(id);
    terminal.print(flagOf(given.values, 'json') ? JSON.stringify(job) : jobText(job, terminal, Date.now()));
    return EXIT.ok;
  },
};

export function jobText(job: JobView, terminal: Terminal, now: number): string {
  const rows = [...askRows(job), ...stateRows(job, terminal, now)].filter(([, value]) => value !== undefined);
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
  return [lines.join('\n'), attemptsText(job.attempts), errorText(job), resultPart(job), nextStep(job)]
    .filter((part) => part !== undefined)
    .join('\n\n');
}

type Row = readonly [name: string, value: string | number | undefined];

function askRows(job: JobView): Row[] {
  return [
    ['job', job.job_id],
    ['type', job.type],
    ['model', job.model],
    ['priority', job.priority],
    ['score', job.score === 0 ? undefined : job.score],
    ['agent', job.agent],
    ['session', job.session_id],
    ['key', job.key === undefined ? undefined : oneLine(job.key)],
  ];
}

function stateRows(job: JobView, terminal: Terminal, now: number): Row[] {
  const reason = job.reason === undefined ? '' : ` (${job.reason})`;
  const asked = job.cancel_requested && job.state !== 'cancelled' ? ', cancel asked for' : '';
  const place = placeText(job);
  return [
    ['state', paintState(job.state, job.state, terminal) + reason + asked],
    ['waits', job.waiting && oneLine(job.waiting.text)],
    ['queue', place === '' ? undefined : place],
    ['tries', `${job.tries} of ${job.max_tries} failed`],
    ['created', `${instantText(job.created_at)}, ${durationText(now - job.created_at)} ago`],
    ['started', job.started_at === undefined ? undefined : instantText(job.started_at)],
    [
      'ended',
      job.ended_at === undefined
        ? undefined
        : [instantText(job.ended_at), tookText(job)].filter(Boolean).join(', '),
    ],
  ];
}

function attemptsText(attempts: readonly AttemptView[]): string | undefined {
  if (attempts.length === 0) return undefined;
  const lines = attempts.map((attempt) => {
    const end =
      attempt.ended_at === undefined ? '' : `, ${durationText(attempt.ended_at - attempt.intended_at)}`;
    const outcome = attempt.outcome === undefined ? attempt.state : attempt.outcome;
    const error = attempt.error ? `: ${oneLine(attempt.error.message)} (${attempt.error.code})` : '';
    return `  ${attempt.attempt}  ${attempt.backend}  ${outcome}${end}${error}`;
  });
  return ['attempts', ...lines].join('\n');
}

function errorText({ error }: JobView): string | undefined {
  if (!error) return undefined;
  const reason = error.reason === undefined ? '' : `, ${error.reason}`;
  const advice = adviceFor(error.code);
  return `error  ${harmless(error.message)} (${error.code}${reason})${advice === undefined ? '' : `\n       ${advice}`}`;
}

const resultPart = ({ result }: JobView): string | undefined =>
  result === undefined ? undefined : `result\n${harmless(resultText(result))}`;
