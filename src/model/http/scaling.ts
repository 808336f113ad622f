/** Schema of the HTTP answer that tells an autoscaler how much a pool has to do. */
import { Type } from 'typebox';
import { answerObject, orNull, type Shape } from './shape.ts';

const optional = Type.Optional;
const count = (description: string) => Type.Integer({ minimum: 0, description });

export const ScalingView = answerObject('Scaling', {
  pool: Type.String(),
  waiting: count('Jobs that are ready to run and that the pool can serve; other pools may serve them too'),
  predicted_wait_ms: orNull(
    count('When the last of them is expected to start; null if no such job has been measured yet'),
  ),
  running: count('Slots in use, those of jobs that are about to be claimed among them'),
  slots: count('Slots that can be used'),
  consumers: optional(count('Consumers that take jobs, for a pool of consumers')),
  workers: optional(count('Workers that take jobs, for the pool of a pool manager')),
  wished: count(
    'So many consumers or workers have a slot for each job that waits or runs; without any bound',
  ),
});
export type ScalingView = Shape<typeof ScalingView>;
