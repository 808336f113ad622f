/** What the store reports, as the loop gets it. */
import type { Engine } from '../core/engine/engine.ts';
import type { StoreEvents } from '../core/ports/store.ts';
import type { Logger } from '../kit/logger.ts';
import { storeFailure } from './effect-runner.ts';
import type { Loop } from './loop.ts';
import type { Submissions } from './submissions.ts';

interface StoreEventsParts {
  readonly engine: Engine;
  readonly loop: Loop;
  readonly submissions: Submissions;
  readonly logger: Logger | undefined;
}

export const storeEvents = ({ engine, loop, submissions, logger }: StoreEventsParts): StoreEvents => ({
  durable: (seq) => loop.onDurable(seq),
  indexed: (uids) => {
    submissions.noteEviction();
    loop.post({ type: 'indexed', uids });
  },
  space: (full) => {
    logger?.warn(full ? 'the disk is full' : 'the disk has space again');
    loop.post({ type: 'space', full });
  },
  failed: (error) => loop.fail(storeFailure(error)),
  ask: (uid) => engine.state.jobs.get(uid)?.ask,
});
