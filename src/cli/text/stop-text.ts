/** What `orchd up` says when it has stopped: what is left, and what becomes of it. */
import type { LeftWork } from '../../runtime/left-work.ts';

const count = (jobs: number, one: string, many: string): string => `${jobs} ${jobs === 1 ? one : many}`;

/** By the kind of backend: commands and workers are processes of their own. */
const GOING_ON: Readonly<Record<string, (jobs: number) => string>> = {
  command: (jobs) => count(jobs, 'command goes on running', 'commands go on running'),
  worker: (jobs) => count(jobs, 'job goes on at its worker', 'jobs go on at their workers'),
};

const otherKind =
  (kind: string) =>
  (jobs: number): string =>
    count(jobs, `job goes on at its backend (${kind})`, `jobs go on at their backends (${kind})`);

/** `hasNodes`: other nodes may go on with it. */
export function stoppedText({ waiting, goingOn, cutOff, unknown }: LeftWork, hasNodes: boolean): string {
  const running = Object.entries(goingOn).map(([kind, jobs]) => (GOING_ON[kind] ?? otherKind(kind))(jobs));
  const parts = [
    ...(waiting > 0 ? [count(waiting, 'job waits', 'jobs wait')] : []),
    ...running,
    ...(cutOff > 0 ? [count(cutOff, 'job was cut off', 'jobs were cut off')] : []),
    ...(unknown > 0 ? [count(unknown, 'job has an unknown outcome', 'jobs have an unknown outcome')] : []),
  ];
  if (parts.length === 0) return 'stopped; no job is left';
  const next = hasNodes ? 'the next leader' : 'the next start';
  const then = [
    ...(waiting > 0 ? [`${next} runs what waits`] : []),
    ...(running.length > 0 ? [`${next} takes the results of what runs`] : []),
    ...(cutOff > 0 ? ['what was cut off is tried again or held, as on_unknown of the job says'] : []),
    ...(unknown > 0 ? ['orchd resolve decides unknown outcomes'] : []),
  ];
  return `stopped; ${parts.join(', ')}\n${then.join('; ')}`;
}
