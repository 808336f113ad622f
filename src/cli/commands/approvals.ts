/** `orchd approvals` */
import type { ApprovalView } from '../../model/http/runs.ts';
import type { Checkpoint } from '../../model/run-jobs.ts';
import { flagOf, noPositionals } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';
import { oneLine } from '../text/screen.ts';

const options = {
  ...SERVER_OPTIONS,
  json: { type: 'boolean', help: 'print one JSON object per line, one for each call' },
} as const;

export const approvals: Command = {
  usage: usageOf({
    call: 'approvals [OPTIONS]',
    about: `Lists the calls of tools, and the runs at a checkpoint, that wait for somebody to allow them: what each would do, and
until when it waits.
\`orchd approve\` answers one.`,
    options,
    examples: ['orchd approvals', 'orchd approvals --json | jq -r .call_id'],
  }),
  options,
  async run(args, terminal) {
    noPositionals(args.positionals);
    const isJson = flagOf(args.values, 'json');
    const client = connect(args);
    let shown = 0;
    let cursor: string | undefined;
    do {
      const page = await client.approvalPage(cursor === undefined ? {} : { cursor });
      for (const each of page.approvals) {
        if (isJson) terminal.printData(JSON.stringify(each));
        else terminal.print(approvalText(each));
      }
      shown += page.approvals.length;
      cursor = page.cursor;
    } while (cursor !== undefined);
    if (shown === 0 && !isJson) terminal.complain('no call of a tool waits for somebody to allow it.');
    return EXIT.ok;
  },
};

const CHECKPOINT_TEXT: Readonly<Record<Checkpoint, string>> = {
  plan: 'the plan is made',
  tools: 'tools are to be called',
  synthesis: 'the answer is to be given',
};

function approvalText({ call_id, agent, tool, checkpoint, args, expires_at: until }: ApprovalView): string {
  const what = args === undefined ? '(long: orchd show has its payload)' : oneLine(JSON.stringify(args));
  const wanted =
    tool === undefined
      ? `waits before it goes on (${CHECKPOINT_TEXT[checkpoint ?? 'plan']}):`
      : `wants to call ${oneLine(tool)}`;
  const when = until === undefined ? '' : `\n  until ${new Date(until).toISOString()}`;
  return `${oneLine(call_id)}\n  ${oneLine(agent)} ${wanted} ${what}${when}`;
}
