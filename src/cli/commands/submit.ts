/** `orchd submit` */
import type { OrchdClient } from '../../client/client.ts';
import type { SubmittedTask } from '../../model/http/jobs.ts';
import type { SubmitRequest } from '../../model/submit.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { type Ended, type FollowHow, follow, followText, tellEnd } from '../follow.ts';
import { flagOf } from '../given.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { PRIORITIES, requestOf } from '../submit-request.ts';
import { placeText } from '../text/job-text.ts';
import { cancelText } from './cancel.ts';

const options = {
  follow: { type: 'boolean', says: 'print the answer as it comes, and nothing else' },
  type: { type: 'string', value: 'TYPE', says: 'what kind of work it is; inference by default' },
  payload: { type: 'string', value: 'JSON|@FILE|-', says: 'what the backend gets, instead of a prompt' },
  model: { type: 'string', value: 'MODEL', says: 'only on backends with this model' },
  priority: { type: 'string', choices: PRIORITIES, says: 'batch by default; interactive goes first' },
  key: { type: 'string', value: 'KEY', says: 'at most one live job has it' },
  'job-id': { type: 'string', value: 'ID', says: 'the same id and body give the same job' },
  agent: { type: 'string', value: 'AGENT', says: 'who asks: order and limits are fair between agents' },
  session: { type: 'string', value: 'SESSION', says: 'jobs of a session run one at a time, in order' },
  score: { type: 'string', value: 'N', says: 'orders the jobs of one agent; higher first' },
  label: { type: 'string', multiple: true, value: 'NAME=VALUE', says: 'labels that the backend must have' },
  'timeout-ms': { type: 'string', value: 'N', says: 'how long one try may run' },
  'deadline-ms': { type: 'string', value: 'N', says: 'ends, run or not, this long after the submit' },
  'max-tries': { type: 'string', value: 'N', says: 'tries, the first included' },
  'force-retry': { type: 'boolean', says: 'although the key failed for good a short while ago' },
  ...SERVER_OPTIONS,
  json: { type: 'boolean', says: 'the answer as JSON; with --follow every event as a line of JSON' },
} as const;

export const submit: Command = {
  usage: usageOf({
    call: 'submit [PROMPT] [OPTIONS]',
    about: `Prints the id of the job, on a terminal also its place in the queue. A prompt of - is read from standard input.
With --follow, Ctrl-C cancels an interactive job and leaves a batch job running.
Exit code: 0, or with --follow 1 when the job failed.`,
    options,
    examples: [
      'orchd submit --follow "Why is the sky blue?"',
      'orchd submit - --priority interactive --follow < question.txt',
      `orchd submit --type word-count --payload '{"text": "one two"}'`,
      'ID=$(orchd submit --key nightly-report --payload @report.json --max-tries 5)',
    ],
  }),
  options,
  async run(given, terminal) {
    const client = connect(given);
    const request = await requestOf(given);
    const asJson = flagOf(given.values, 'json');
    if (flagOf(given.values, 'follow')) return submitAndFollow(client, request, asJson, terminal);
    const task = await client.submit(request);
    if (asJson) terminal.print(JSON.stringify(task));
    else terminal.print(process.stdout.isTTY ? submittedText(task) : task.job_id);
    return EXIT.ok;
  },
};

export function submittedText(task: SubmittedTask): string {
  const same = task.duplicate_of === undefined ? '' : `there already, by its ${task.duplicate_of}`;
  return `${task.job_id}  ${[task.status, placeText(task), same].filter(Boolean).join(', ')}`;
}

async function submitAndFollow(
  client: OrchdClient,
  request: SubmitRequest,
  asJson: boolean,
  terminal: Terminal,
): Promise<number> {
  // Listening before the job exists: a Ctrl-C while it is on its way must not leave it behind unseen.
  const interrupt = new Interrupt();
  const task = await client.submit(request);
  const how = { signal: interrupt.signal, terminal };
  let ended: Ended | undefined;
  if (!interrupt.signal.aborted) {
    ended = await (asJson ? followJson(client, task, how) : followSaid(client, task, how));
  }
  if (ended) {
    interrupt.forget();
    return tellEnd(ended, terminal);
  }
  await leave(client, task.job_id, request.priority === 'interactive', terminal);
  interrupt.forget();
  return EXIT_INTERRUPTED;
}

function followSaid(client: OrchdClient, task: SubmittedTask, how: FollowHow): Promise<Ended | undefined> {
  how.terminal.complain(`job ${submittedText(task)}`);
  return followText(client, task.job_id, how);
}

function followJson(client: OrchdClient, task: SubmittedTask, how: FollowHow): Promise<Ended | undefined> {
  const { terminal } = how;
  terminal.print(JSON.stringify({ event: 'submitted', data: task }));
  return follow(client, task.job_id, how, (event) => terminal.print(JSON.stringify(event)));
}

async function leave(client: OrchdClient, id: string, cancels: boolean, terminal: Terminal): Promise<void> {
  if (cancels) terminal.complain(`\norchd: ${cancelText(await client.cancel(id))}`);
  else
    terminal.complain(
      `\norchd: ${id} goes on; \`orchd tail ${id}\` follows it, \`orchd cancel ${id}\` ends it.`,
    );
}
