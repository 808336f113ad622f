/** `orchd cancel ID…` */
import type { JobView } from '../../model/http/jobs.ts';
import type { Command } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { giveToAll } from '../orders.ts';

export const cancel: Command = {
  usage: usageOf({
    call: 'cancel ID… [OPTIONS]',
    about: 'Repeating it is harmless; a job that has ended stays as it is.',
    options: SERVER_OPTIONS,
    examples: [
      'orchd cancel $ID',
      'orchd jobs --agent nightly --state queued --json | jq -r .job_id | xargs orchd cancel',
    ],
  }),
  options: SERVER_OPTIONS,
  run: (given, terminal) =>
    giveToAll({ name: 'cancel', give: (client, id) => client.cancel(id), say: cancelText }, given, terminal),
};

export function cancelText({ job_id: id, state, cancel_requested: asked }: JobView): string {
  if (state === 'cancelled') return `${id} is cancelled.`;
  if (asked) return `${id} is being cancelled; its backend has not confirmed yet.`;
  return `${id} had ended before: ${state}.`;
}
