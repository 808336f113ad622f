/**
 * What a client does when the brain is back: it repeats the request whose answer it never got. And what a second
 * client may try at that moment: the same keys.
 */

import type { JobEntry } from '../../src/core/state/job-entry.ts';
import { isTerminal } from '../../src/model/states.ts';
import type { Orchestrator } from '../../src/runtime/orchestrator.ts';
import { engineOf } from '../fakes/engine-of.ts';
import type { Folders } from './folders.ts';
import { type Ack, openAcks, readAcks, type Step, submitted } from './script.ts';

export async function askAgain(
  orchestrator: Orchestrator,
  folders: Folders,
  script: readonly Step[],
  now: number,
): Promise<string[]> {
  const live = [...engineOf(orchestrator).state.jobs.values()].filter(({ job }) => !isTerminal(job.state));
  const acks = readAcks(folders.acks);
  await tryKeys(orchestrator, live);
  const problems = await tryRefused(orchestrator, script, acks);
  await repeatLast(orchestrator, script, folders, now);
  return problems;
}

/** A key has at most one live job, and a restart does not change that: the log will show it. */
async function tryKeys(orchestrator: Orchestrator, live: readonly JobEntry[]): Promise<void> {
  for (const { ask } of live) {
    if (ask.spec.key === undefined) continue;
    await submitted(orchestrator, { type: 'work', key: ask.spec.key, payload: { text: 'another' } });
  }
}

/** A key that failed for good stays refused. */
async function tryRefused(
  orchestrator: Orchestrator,
  script: readonly Step[],
  acks: readonly Ack[],
): Promise<string[]> {
  const problems: string[] = [];
  for (const ack of acks) {
    if (ack.did !== 'submit' || ack.refused === undefined) continue;
    const step = script[ack.step];
    if (step?.do !== 'submit') continue;
    const answer = await submitted(orchestrator, step.request);
    if (answer.refused === undefined) problems.push(`${ack.label} was refused before and is taken now`);
  }
  return problems;
}

/** Repeats the step that has no acknowledgement, where its client can know that it is the same job. */
async function repeatLast(
  orchestrator: Orchestrator,
  script: readonly Step[],
  folders: Folders,
  now: number,
): Promise<void> {
  const at = (readAcks(folders.acks).at(-1)?.step ?? -1) + 1;
  const step = script[at];
  if (step?.do !== 'submit' || step.request.job_id === undefined) return;
  const answer = await submitted(orchestrator, step.request);
  const file = openAcks(folders.acks);
  file.add({ step: at, at: now, did: 'submit', label: step.label, ...answer, again: true } satisfies Ack);
  file.close();
}
