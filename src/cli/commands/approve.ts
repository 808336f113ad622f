/** `orchd approve CALL [--deny]` */
import { APPROVAL_TYPE, type ApprovalTags } from '../../model/run-jobs.ts';
import { flagOf, jobId, singlePositional, textOf } from '../arguments.ts';
import { type Command, EXIT } from '../command.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { UnknownId } from '../refusal.ts';
import { connect } from '../remote.ts';

const options = {
  deny: { type: 'boolean', help: 'deny the call: the model is told, and goes on without it' },
  why: {
    type: 'string',
    value: 'TEXT',
    help: 'the reason, for the records, and for the model if it is denied',
  },
  ...SERVER_OPTIONS,
} as const;

export const approve: Command = {
  usage: usageOf({
    call: 'approve CALL [OPTIONS]',
    about: `Allows a call of a tool that \`orchd approvals\` lists, or denies it. Each call is answered once; a call that nobody answers in
time is denied.`,
    options,
    examples: ['orchd approve $CALL', `orchd approve $CALL --deny --why 'not on a Friday'`],
  }),
  options,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'call'));
    const client = connect(args);
    const { type, state, tags } = await client.get(id);
    if (type !== APPROVAL_TYPE || state !== 'waiting')
      throw new UnknownId(`no call "${id}" waits to be allowed`, '`orchd approvals` lists those that do.');
    const { run, hash } = tags as unknown as ApprovalTags;
    const isAllowed = !flagOf(args.values, 'deny');
    const why = textOf(args.values, 'why');
    const answer = { call_id: id, approve: isAllowed, hash, ...(why !== undefined && { why }) };
    const view = await client.approve(run, answer);
    if (flagOf(args.values, 'json')) terminal.printData(JSON.stringify(view));
    else terminal.print(`${id} is ${isAllowed ? 'allowed' : 'denied'}.`);
    return EXIT.ok;
  },
};
