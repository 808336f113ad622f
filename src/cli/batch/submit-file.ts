/** `orchd submit --file`: checks a file of jobs, and submits it as a batch. */
import { createHash, randomBytes } from 'node:crypto';
import { ClientError, type OrchdClient } from '../../client/client.ts';
import { flagOf, textOf } from '../arguments.ts';
import { type CliArguments, EXIT, type Terminal, UsageError } from '../command.ts';
import { EXIT_INTERRUPTED, Interrupt } from '../interrupt.ts';
import { jobFieldsOf, pastStart, startOf } from '../submit-request.ts';
import { durationText } from '../text/duration.ts';
import { bar, counted, Meter, rateText } from '../text/meter.ts';
import { oneLine } from '../text/screen.ts';
import { type CheckedFile, checkFile } from './check-file.ts';
import { firstCall } from './first-call.ts';
import type { JobDefaults } from './line-check.ts';
import { FileSender, type Refusal, type SendCounts } from './send-file.ts';
import { FileChanged, SourceFile } from './source-file.ts';
import { waitForIds } from './wait-for.ts';

/** Options that say what a single job is. */
const SINGLE_JOB = ['payload', 'key', 'job-id', 'follow'] as const;
/** The ids of its jobs are made of it. */
const BATCH_ID = /^[A-Za-z0-9._-]{1,112}$/;
/** The most ids in `after` that are asked for before the submit; the brain checks every one again. */
const MAX_ASKED_IDS = 1000;

interface Run {
  readonly args: CliArguments;
  readonly client: OrchdClient;
  readonly terminal: Terminal;
  readonly meter: Meter;
  readonly file: SourceFile;
}

export async function submitFile(
  args: CliArguments,
  client: OrchdClient,
  terminal: Terminal,
): Promise<number> {
  const path = textOf(args.values, 'file') as string;
  checkOptions(args);
  const defaults = jobFieldsOf(args);
  // Wrong options are refused before a large file is read.
  startOf(args, 0);
  const file = await SourceFile.open(path, process.stdin);
  try {
    const run: Run = { args, client, terminal, meter: new Meter(terminal), file };
    const checked = await checkFile(file, defaults, (lines) =>
      run.meter.update(() => `checking ${file.label}: ${counted(lines, 'line')}`),
    );
    run.meter.clear();
    await checkForeignIds(checked, client);
    return await submitChecked(run, checked, defaults);
  } finally {
    await file.close();
  }
}

function checkOptions({ values, positionals }: CliArguments): void {
  if (positionals[0] !== undefined) throw new UsageError('give a prompt or --file, not both.');
  for (const option of SINGLE_JOB)
    if (values[option] !== undefined)
      throw new UsageError(`--${option} is for a single job, not for --file.`);
  const batch = textOf(values, 'batch');
  if (batch === undefined) return;
  if (flagOf(values, 'again')) throw new UsageError('give --batch or --again, not both.');
  if (!BATCH_ID.test(batch) || /^\.{1,2}$/.test(batch))
    throw new UsageError(`"${batch}" cannot be a batch: up to 112 letters, digits, dots, - and _.`);
}

/** An entry of `after` that is no name in the file is the id of a job: a misspelt name is noticed here. */
async function checkForeignIds({ names, faults }: CheckedFile, client: OrchdClient): Promise<void> {
  for (const [id, line] of names.foreignIds.slice(0, MAX_ASKED_IDS)) {
    try {
      await client.get(id);
    } catch (error) {
      if (!isMissing(error)) throw error;
      faults.add({ line, text: names.reject(id, await isBatch(client, id)) });
    }
  }
}

const isMissing = (error: unknown): boolean => error instanceof ClientError && error.status === 404;

async function isBatch(client: OrchdClient, id: string): Promise<boolean> {
  try {
    await client.batch(id);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

async function submitChecked(run: Run, checked: CheckedFile, defaults: JobDefaults): Promise<number> {
  const { args, terminal, file } = run;
  const { lines, faults } = checked;
  const skipsBad = flagOf(args.values, 'skip-bad');
  const isDry = flagOf(args.values, 'dry-run');
  if (lines === 0) throw new UsageError(`${file.label} has no jobs.`);
  const batch = batchIdOf(args, file, defaults);
  if (faults.count > 0 && (!skipsBad || isDry)) {
    for (const text of faults.lines(file.label, lines)) terminal.complain(text);
    const hint = isDry ? '' : ' --skip-bad submits the other lines.';
    terminal.complain(
      `orchd submit: ${counted(faults.count, 'fault')} in ${counted(lines, 'line')}; nothing was submitted.${hint}`,
    );
    return EXIT.unusable;
  }
  if (!isDry) return submitLines(run, checked, defaults, batch);
  terminal.complain(`${file.label}: ${counted(lines, 'job')}, no fault; nothing was submitted.`);
  if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify({ batch_id: batch, lines }));
  return EXIT.ok;
}

/** The same file with the same options is the same batch, so that a second run submits nothing twice. */
export function batchIdOf(
  args: CliArguments,
  file: Pick<SourceFile, 'digest'>,
  defaults: JobDefaults,
): string {
  const { values } = args;
  const given = textOf(values, 'batch');
  if (given !== undefined) return given;
  if (flagOf(values, 'again')) return `f-${randomBytes(8).toString('hex')}`;
  const options = JSON.stringify([defaults, textOf(values, 'in'), textOf(values, 'at')]);
  return `f-${createHash('sha256').update(file.digest).update(options).digest('hex').slice(0, 16)}`;
}

async function submitLines(
  run: Run,
  { lines, names, faults }: CheckedFile,
  defaults: JobDefaults,
  batch: string,
): Promise<number> {
  const { args, client, terminal, meter, file } = run;
  const late = pastStart(args, Date.now());
  if (late !== undefined) terminal.complain(`warning: ${late}`);
  const progress = new SendProgress(meter, lines);
  const request = {
    batch_id: batch,
    ...(file.name !== undefined && { name: oneLine(file.name).slice(0, 255) }),
    ...(defaults.tags && { tags: defaults.tags }),
  };
  const created = await firstCall(
    () => client.createBatch(request),
    () => progress.lost(),
  );
  const asJson = flagOf(args.values, 'json');
  let isAdmitted = false;
  /** The id goes to scripts that work on with it: they get none if the batch has no job. */
  const admit = ({ submitted, there }: Readonly<SendCounts>): void => {
    if (isAdmitted || submitted + there === 0) return;
    isAdmitted = true;
    if (!asJson) terminal.printData(batch);
  };
  // --in counts from the creation of the batch: a second run asks for the same start.
  const start = startOf(args, created.created_at);
  const interrupt = new Interrupt();
  const sender = new FileSender(client, file, {
    batch,
    defaults: start === undefined ? defaults : { ...defaults, not_before: start },
    names,
    hasFaults: faults.count > 0,
    isPatient: flagOf(args.values, 'patient'),
    signal: interrupt.signal,
    onReconnect: () => progress.lost(),
    onProgress: (counts) => {
      admit(counts);
      progress.update(counts);
    },
    onWait: (refusal) => progress.wait(refusal),
  });
  try {
    const left = await sendAll(sender).finally(() => meter.clear());
    const outcome: Outcome = { batch, lines, left, isInterrupted: interrupt.signal.aborted };
    if (asJson) terminal.printData(JSON.stringify(summaryOf(sender.counts, outcome)));
    const code = await report(run, sender, outcome);
    if (!flagOf(args.values, 'wait') || code === EXIT_INTERRUPTED || left || !isAdmitted) return code;
    return Math.max(code, await waitForIds(client, [batch], { command: 'submit', interrupt }, terminal));
  } finally {
    interrupt.remove();
  }
}

/** Why lines are left: there is no room for them, or the file is another one. */
type Left = { readonly noRoom: Refusal } | { readonly changed: true } | undefined;

interface Outcome {
  readonly batch: string;
  readonly lines: number;
  readonly left: Left;
  readonly isInterrupted: boolean;
}

async function sendAll(sender: FileSender): Promise<Left> {
  try {
    const noRoom = await sender.run();
    return noRoom && { noRoom };
  } catch (error) {
    if (error instanceof FileChanged) return { changed: true };
    throw error;
  }
}

const notSubmitted = ({ submitted, there, refused, skipped }: SendCounts, lines: number): number =>
  lines - submitted - there - refused - skipped;

const summaryOf = (counts: SendCounts, { batch, lines }: Outcome): object => ({
  batch_id: batch,
  lines,
  submitted: counts.submitted,
  already_there: counts.there,
  refused: counts.refused,
  skipped: counts.skipped,
  not_submitted: notSubmitted(counts, lines),
});

async function report({ args, terminal, file }: Run, sender: FileSender, outcome: Outcome): Promise<number> {
  const { counts, refusals, skipped } = sender;
  const { batch, lines, left, isInterrupted } = outcome;
  for (const text of skipped.lines(file.label, lines)) terminal.complain(`skipped ${text}`);
  for (const text of refusals.lines(file.label, lines)) terminal.complain(text);
  terminal.complain(`batch ${batch}: ${countsText(counts)}.`);
  const rest = notSubmitted(counts, lines);
  const again = againText(args, batch, file);
  if (left && 'changed' in left) {
    terminal.complain(
      `orchd submit: ${file.label} was changed or cut while it was sent; ${counted(rest, 'line')} of it were not submitted.`,
    );
    return EXIT.problems;
  }
  if (isInterrupted) {
    terminal.complain(
      `orchd submit: interrupted; ${counted(rest, 'line')} not submitted. ${again} to go on.`,
    );
    return EXIT_INTERRUPTED;
  }
  if (left) {
    terminal.complain(
      `orchd submit: ${oneLine(left.noRoom.message)} (${left.noRoom.code}); ${counted(rest, 'line')} not submitted.\n` +
        `${again} later to submit the rest, or with --patient to submit it as room comes.`,
    );
    return EXIT.problems;
  }
  if (await file.hasGrown())
    terminal.complain(
      `warning: ${file.label} has grown since it was checked; the new lines were not submitted.`,
    );
  return counts.refused > 0 ? EXIT.problems : EXIT.ok;
}

function countsText({ submitted, there, refused, skipped }: SendCounts): string {
  const parts = [
    `${submitted.toLocaleString('en')} submitted`,
    there > 0 ? `${there.toLocaleString('en')} already there` : '',
    refused > 0 ? `${refused.toLocaleString('en')} refused` : '',
    skipped > 0 ? `${skipped.toLocaleString('en')} skipped` : '',
  ];
  return parts.filter((part) => part !== '').join(', ');
}

/** How to go on: --again would begin another batch. */
function againText({ values }: CliArguments, batch: string, { name }: SourceFile): string {
  const input = name === undefined ? ' with the same input' : '';
  if (flagOf(values, 'again')) return `Run the same command${input} with --batch ${batch} instead of --again`;
  return `Run the same command again${input}`;
}

/** What a person sees of the sending. */
class SendProgress {
  readonly #meter: Meter;
  readonly #lines: number;
  readonly #startedAt = performance.now();
  #isLost = false;

  constructor(meter: Meter, lines: number) {
    this.#meter = meter;
    this.#lines = lines;
  }

  update(counts: Readonly<SendCounts>): void {
    this.#isLost = false;
    this.#meter.update(() => this.#text(counts));
  }

  lost(): void {
    if (!this.#isLost) this.#meter.say('orchd: the connection was lost; reconnecting');
    this.#isLost = true;
  }

  wait({ code, retry_after_ms: ms }: Refusal): void {
    const when = ms === undefined ? '' : `, trying again in ${durationText(ms)}`;
    this.#meter.update(() => `waiting for room (${code})${when}`);
  }

  #text(counts: Readonly<SendCounts>): string {
    const { submitted, there, refused, skipped, sent } = counts;
    const done = submitted + there + refused + skipped;
    const rate = rateText(submitted + there + refused, performance.now() - this.#startedAt);
    const parts = [
      `${bar(done / this.#lines)} ${done.toLocaleString('en')} of ${counted(this.#lines, 'line')} answered`,
      rate,
      refused > 0 ? `${refused.toLocaleString('en')} refused` : '',
      `${sent.toLocaleString('en')} sent`,
    ];
    return parts.filter((part) => part !== '').join(', ');
  }
}
