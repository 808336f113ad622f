/** Passes the ends of jobs and attempts on to sessions, batches, limits and the forecast of demand (docs/decisions/0015). */
import { noteBatchEnd } from '../admission/batch.ts';
import { admitChildren } from '../admission/children.ts';
import { recordViolation } from '../admission/governed.ts';
import { settle } from '../admission/quota.ts';
import { forgetThread, noteSaid, noteUsed } from '../admission/session.ts';
import { dropTree, limitTree } from '../admission/tree-budget.ts';
import { modelOf } from '../queue/queue.ts';
import type { EndFact } from '../turn.ts';
import { noteArrival, noteServed } from '../workers/forecast.ts';
import type { EngineTurn } from './handler.ts';

/** Passes on all of them, those too that follow from others: a broken rule may cancel jobs, whose ends follow from that. */
export function processEnds(turn: EngineTurn): void {
  for (let ends = turn.takeEnds(); ends.length > 0; ends = turn.takeEnds())
    for (const end of ends) processEnd(turn, end);
}

function processEnd(turn: EngineTurn, end: EndFact): void {
  switch (end.is) {
    case 'waits': {
      if (end.entry.job.wait?.budget) limitTree(turn, end.entry);
      const admitted = admitChildren(turn, end.entry, end.children);
      for (const entry of admitted) noteArrival(turn, modelOf(entry));
      return;
    }
    case 'said':
      return noteSaid(turn, end.entry, end.said);
    case 'violation':
      return recordViolation(turn, end);
    case 'thread-lost':
      return forgetThread(turn, end.entry, end.backend);
    case 'job':
      settle(turn, end.entry);
      // Its attempt may still run, or have been heard: the next turn must not go on in that thread.
      if (end.entry.open) forgetThread(turn, end.entry, end.entry.open.backend);
      dropTree(turn, end.entry);
      return noteBatchEnd(turn.batchEnds, end.entry);
    case 'attempt': {
      const { entry, attempt, tokens, heard } = end;
      if (attempt.acceptedAt !== undefined)
        noteServed(turn, attempt.model ?? entry.ask.spec.model, turn.now - attempt.acceptedAt);
      if (tokens !== undefined) noteUsed(turn, entry, { backend: attempt.backend, tokens, heard });
    }
  }
}
