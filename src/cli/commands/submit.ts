/** `orchd submit` */
import type { OrchdClient } from '../../client/client.ts';
import type { SubmittedTask } from '../../model/http/jobs.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { flagOf, textOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal, UsageError } from '../command.ts';
import { type Ended, type FollowOptions, follow, followText, reportEnd } from '../follow.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { AFTER_POLICIES, PRIORITIES, pastStart, requestOf } from '../submit-request.ts';
import { placeText } from '../text/job-text.ts';
import { cancelText } from './cancel.ts';

const options = {
  file: {
    type: 'string',
    value: 'FILE|-',
    help: 'submit each line of this file as a job; other options are defaults for its lines',
  },
  batch: { type: 'string', value: 'BATCH', help: 'the batch; with --file by default made from its content' },
  again: { type: 'boolean', help: 'with --file: submit it once more, as another batch' },
  'skip-bad': { type: 'boolean', help: 'with --file: submit the good lines of a file that has bad ones' },
  patient: { type: 'boolean', help: 'with --file: where the queue is full, go on as room comes' },
  'dry-run': { type: 'boolean', help: 'with --file: only check the file' },
  wait: { type: 'boolean', help: 'with --file: then wait until all jobs have ended' },
  follow: { type: 'boolean', help: 'print the answer, and nothing else, while it is generated' },
  type: { type: 'string', value: 'TYPE', help: 'the kind of work; by default inference' },
  payload: {
    type: 'string',
    value: 'JSON|@FILE|-',
    help: 'the input of the job as JSON, instead of a prompt',
  },
  model: { type: 'string', value: 'MODEL', help: 'run it only on backends with this model' },
  priority: { type: 'string', choices: PRIORITIES, help: 'by default batch; interactive jobs run first' },
  key: {
    type: 'string',
    value: 'KEY',
    help: 'while a job with this key is alive, a submit with the same key returns that job',
  },
  'job-id': {
    type: 'string',
    value: 'ID',
    help: 'your own job id; a submit with the same id and body returns the same job',
  },
  agent: { type: 'string', value: 'AGENT', help: 'who submits; capacity is shared fairly between agents' },
  session: {
    type: 'string',
    value: 'SESSION',
    help: 'the session; jobs of a session run one at a time, in order',
  },
  score: { type: 'string', value: 'N', help: 'among the jobs of one agent a higher score runs first' },
  label: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'a label that the backend must have' },
  tag: { type: 'string', multiple: true, value: 'NAME=VALUE', help: 'a tag by which jobs can be found' },
  after: { type: 'string', multiple: true, value: 'ID', help: 'a job that must end before this one starts' },
  'after-policy': {
    type: 'string',
    choices: AFTER_POLICIES,
    help: 'how the jobs of --after must end; by default succeeded, else the job is dead',
  },
  in: { type: 'string', value: 'DURATION', help: 'start it this long from now: 90s, 10m, 2h, 1d' },
  at: { type: 'string', value: 'TIME', help: 'start it at this time: 2026-12-01T08:00+01:00' },
  'timeout-ms': { type: 'string', value: 'N', help: 'the longest time that one try may run' },
  'deadline-ms': {
    type: 'string',
    value: 'N',
    help: 'the job ends this long after the submit, even if it has not run',
  },
  'max-tries': { type: 'string', value: 'N', help: 'the maximum number of tries, including the first' },
  'force-retry': {
    type: 'boolean',
    help: 'submit even if the last job with this key has failed for good a short while ago',
  },
  'wait-for-backend': {
    type: 'boolean',
    help: 'let the job wait even if nothing here could run it',
  },
  ...SERVER_OPTIONS,
  json: {
    type: 'boolean',
    help: 'print the answer as JSON; with --follow print every event as a line of JSON',
  },
} as const;

const FILE_OPTIONS = ['again', 'skip-bad', 'patient', 'dry-run', 'wait'] as const;

export const submit: Command = {
  usage: usageOf({
    call: 'submit [PROMPT] [OPTIONS]',
    about: `Submits a job and prints its id; on a terminal also its position in the queue. If PROMPT is -, the prompt is read from
standard input. With --follow, Ctrl-C cancels an interactive job and leaves a batch job running.

With --file, every line is a job as POST /v2/tasks takes it, or a prompt in quotes. The whole file is checked before
anything is submitted, and the id of the batch is printed. The same command again submits nothing twice: it goes on where
it was interrupted. A line may have a "name", by which later lines refer to it in "after".
Exit code: 0 if the jobs were submitted, 1 if some were not; with --follow or --wait 1 if one failed.`,
    options,
    examples: [
      'orchd submit --follow "Why is the sky blue?"',
      'orchd submit - --priority interactive --follow < question.txt',
      `orchd submit --type word-count --payload '{"text": "one two"}'`,
      'BATCH=$(orchd submit --file prompts.jsonl --model qwen3 --tag project=survey --wait)',
      'ID=$(orchd submit --key nightly-report --payload @report.json --max-tries 5)',
    ],
  }),
  options,
  async run(args, terminal) {
    const client = connect(args);
    if (textOf(args.values, 'file') !== undefined) {
      // Loaded only here: it checks lines with the schemas of the server.
      const { submitFile } = await import('../batch/submit-file.ts');
      return submitFile(args, client, terminal);
    }
    for (const option of FILE_OPTIONS)
      if (flagOf(args.values, option)) throw new UsageError(`--${option} is only for --file.`);
    const now = Date.now();
    const request = await requestOf(args, now);
    const late = pastStart(args, now);
    if (late !== undefined) terminal.complain(`warning: ${late}`);
    const asJson = flagOf(args.values, 'json');
    if (flagOf(args.values, 'follow')) return submitAndFollow(client, request, asJson, terminal);
    const task = await client.submit(request);
    if (task.warning !== undefined) terminal.complain(`warning: ${task.warning}`);
    if (asJson) terminal.printData(JSON.stringify(task));
    else terminal.print(terminal.isTerminal ? submittedText(task) : task.job_id);
    return EXIT.ok;
  },
};

export function submittedText(task: SubmittedTask): string {
  const same = task.duplicate_of === undefined ? '' : `already submitted (same ${task.duplicate_of})`;
  return `${task.job_id}  ${[task.status, placeText(task), same].filter(Boolean).join(', ')}`;
}

async function submitAndFollow(
  client: OrchdClient,
  request: SubmitRequest,
  asJson: boolean,
  terminal: Terminal,
): Promise<number> {
  // Signals are handled from before the submit: after a Ctrl-C during it, the job is still cancelled or reported.
  const interrupt = new Interrupt();
  const task = await client.submit(request);
  if (task.warning !== undefined) terminal.complain(`warning: ${task.warning}`);
  const options = { signal: interrupt.signal, terminal };
  let ended: Ended | undefined;
  if (!interrupt.signal.aborted) {
    ended = await (asJson ? followJson(client, task, options) : followWithText(client, task, options));
  }
  if (ended) {
    interrupt.remove();
    return reportEnd(ended, terminal);
  }
  await leave(client, task.job_id, request.priority === 'interactive', terminal);
  interrupt.remove();
  return EXIT_INTERRUPTED;
}

function followWithText(
  client: OrchdClient,
  task: SubmittedTask,
  options: FollowOptions,
): Promise<Ended | undefined> {
  options.terminal.complain(`job ${submittedText(task)}`);
  return followText(client, task.job_id, options);
}

function followJson(
  client: OrchdClient,
  task: SubmittedTask,
  options: FollowOptions,
): Promise<Ended | undefined> {
  const { terminal } = options;
  terminal.printData(JSON.stringify({ event: 'submitted', data: task }));
  return follow(client, task.job_id, options, (event) => terminal.printData(JSON.stringify(event)));
}

async function leave(
  client: OrchdClient,
  id: string,
  isInteractive: boolean,
  terminal: Terminal,
): Promise<void> {
  if (isInteractive) terminal.complain(`\norchd: ${cancelText(await client.cancel(id))}`);
  else
    terminal.complain(
      `\norchd: ${id} keeps running; \`orchd tail ${id}\` follows it, \`orchd cancel ${id}\` cancels it.`,
    );
}
