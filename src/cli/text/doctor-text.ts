/** The output of `orchd doctor`: JSON lines for programs, text for people. */

import { isTerminal, JOB_STATES } from '../../model/states.ts';
import type { Diagnosis, DoctorFinding, SalvagePlan, Verdict } from '../../stores/journal/doctor/doctor.ts';
import type { Terminal } from '../command.ts';
import { type Colour, oneLine, paint } from './screen.ts';

export function showJson(diagnosis: Diagnosis, terminal: Terminal): void {
  const { findings, ...summary } = diagnosis;
  for (const finding of findings) terminal.printData(jsonLine({ type: 'finding', ...finding }));
  terminal.printData(jsonLine({ type: 'summary', ...summary }));
}

/** Field names are in snake case, as everywhere outside the code: last_seq, in_use. */
export function jsonLine(value: object): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    each === null || typeof each !== 'object' || Array.isArray(each)
      ? each
      : Object.fromEntries(Object.entries(each).map(([name, field]) => [snake(name), field])),
  );
}

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const COLOURS = { ok: 'green', warn: 'yellow', bad: 'red' } as const satisfies Record<Verdict, Colour>;

export function showText(diagnosis: Diagnosis, advises: boolean, terminal: Terminal): void {
  const { findings } = diagnosis;
  const width = Math.max(...findings.map(({ check }) => check.length));
  const line = ({ check, verdict, sentence, position }: DoctorFinding): string => {
    const place = position === undefined ? '' : `  [${oneLine(position)}]`;
    return `${paint(COLOURS[verdict], verdict.padEnd(4), terminal)}  ${check.padEnd(width)}  ${oneLine(sentence)}${place}`;
  };
  terminal.print(findings.map(line).join('\n'));
  terminal.print(`\n${closing(diagnosis, advises)}`);
}

function closing(diagnosis: Diagnosis, advises: boolean): string {
  const { verdict, folder, isDataFolder, salvage: plan, facts } = diagnosis;
  if (!isDataFolder) return `${folder} is not a data folder of orchd.`;
  if (verdict !== 'bad') {
    const size = `${facts.lastSeq} changes, ${Math.ceil(facts.logBytes / 1024)} KiB of log`;
    return `${folder} is healthy (${size}; ${jobsIn(facts.jobs ?? {})}).`;
  }
  const count = diagnosis.findings.filter((finding) => finding.verdict === 'bad').length;
  const problems = `${folder} has ${count === 1 ? 'a problem' : `${count} problems`}.`;
  if (!plan) return `${problems} Nothing in it can be salvaged.`;
  if (onlyBodiesAreBad(diagnosis)) {
    return `${problems}\nLost for good: ${bodies(plan.lost.bodies)}. orchd starts from this folder as it is, and a salvage would not bring them back.`;
  }
  const advice = advises ? `\nTo salvage it: orchd doctor ${folder} --salvage NEWDIR` : '';
  return `${problems}\nCan be salvaged: ${salvageText(plan)}${advice}`;
}

const onlyBodiesAreBad = ({ findings }: Diagnosis): boolean =>
  findings.every(({ check, verdict }) => verdict !== 'bad' || check === 'blobs');

const bodies = (count: number): string =>
  count === 1 ? '1 body (a payload or a result)' : `${count} bodies (payloads or results)`;

export function salvageText(plan: SalvagePlan): string {
  const { upTo, position, jobs, lost } = plan;
  const end = position === undefined ? 'which is the whole log' : `up to ${position}`;
  const losses = [
    lost.bytes > 0 ? `${lost.bytes} bytes of log, with ${lost.changes} changes that can still be read` : '',
    lost.missing > 0 ? `at least ${lost.missing} acknowledged changes after the end of the log` : '',
    lost.ended > 0 ? `${lost.ended} ended jobs that only the index has` : '',
    lost.bodies > 0 ? `${bodies(lost.bodies)}, whose files are missing or damaged` : '',
  ].filter((text) => text !== '');
  const loss = losses.length === 0 ? 'Nothing is lost.' : `Lost: ${losses.join('; ')}.`;
  return `everything up to change ${upTo}, ${end}; ${jobsIn(jobs)}. ${loss}${warningOf(plan)}`;
}

/** A saved job is as it was before the lost changes, of which nobody can say what they did to it. */
function warningOf({ jobs, lost }: SalvagePlan): string {
  const live = JOB_STATES.filter((state) => !isTerminal(state)).reduce((sum, state) => sum + jobs[state], 0);
  if (live === 0 || (lost.bytes === 0 && lost.missing === 0)) return '';
  const which =
    live === 1 ? 'the job that has not ended there' : `the ${live} jobs that have not ended there`;
  return `\nCareful: ${which} may have run or been cancelled in the lost changes. orchd starts queued jobs, also those that ran then: paid work may be paid again.`;
}

function jobsIn(jobs: Readonly<Partial<Record<string, number>>>): string {
  const states = Object.entries(jobs).filter(([, count]) => count);
  const total = states.reduce((sum, [, count]) => sum + (count ?? 0), 0);
  const detail = states.map(([state, count]) => `${count} ${state}`).join(', ');
  return `${total} ${total === 1 ? 'job' : 'jobs'} in memory${detail === '' ? '' : ` (${detail})`}`;
}
