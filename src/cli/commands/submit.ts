/** `orchd submit` */
import type { OrchdClient } from '../../client/client.ts';
import type { SubmittedTask } from '../../model/http/jobs.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { flagOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { type Ended, type FollowOptions, follow, followText, reportEnd } from '../follow.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { PRIORITIES, requestOf } from '../submit-request.ts';
import { placeText } from '../text/job-text.ts';
import { cancelText } from './cancel.ts';

const options = {
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

export const submit: Command = {
  usage: usageOf({
    call: 'submit [PROMPT] [OPTIONS]',
    about: `Submits a job and prints its id; on a terminal also its position in the queue. If PROMPT is -, the prompt is read from
standard input. With --follow, Ctrl-C cancels an interactive job and leaves a batch job running.
Exit code: 0 if the job was submitted; with --follow 1 if it failed.`,
    options,
    examples: [
      'orchd submit --follow "Why is the sky blue?"',
      'orchd submit - --priority interactive --follow < question.txt',
      `orchd submit --type word-count --payload '{"text": "one two"}'`,
      'ID=$(orchd submit --key nightly-report --payload @report.json --max-tries 5)',
    ],
  }),
  options,
  async run(args, terminal) {
    const client = connect(args);
    const request = await requestOf(args);
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
