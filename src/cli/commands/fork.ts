/** `orchd fork RUN --step N` */
import { flagOf, jobId, singlePositional, textOf, wholeOf } from '../arguments.ts';
import { type Command, EXIT, UsageError } from '../command.ts';
import { forJob } from '../job-id.ts';
import { fileText } from '../json-argument.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { connect } from '../remote.ts';

const MAX_STEP = 1e9;

const options = {
  step: { type: 'string', value: 'N', help: 'the first step that is made anew; those before it are taken' },
  model: { type: 'string', value: 'MODEL', help: 'the model that is asked from there on' },
  instructions: {
    type: 'string',
    value: 'TEXT',
    help: 'the instructions from there on; @FILE reads them from a file',
  },
  input: { type: 'string', value: 'TEXT', help: 'a further message of the user, told before the step' },
  id: { type: 'string', value: 'RUN', help: 'the id of the new run; a second fork with it starts none' },
  ...SERVER_OPTIONS,
} as const;

export const fork: Command = {
  usage: usageOf({
    call: 'fork RUN --step N [OPTIONS]',
    about: `Starts a run that takes the steps before N from RUN, without calling anything for them, and goes on from there for real: with
another model, other instructions, or a further message. Prints the id of the new run; \`orchd tail\` follows it.
\`orchd show RUN\` lists the steps of a run.`,
    options,
    examples: [
      'orchd fork $RUN --step 3 --model large',
      'orchd fork $RUN --step 1 --instructions @librarian.txt',
      'orchd fork $RUN --step 5 --input "Only the newest order counts."',
    ],
  }),
  options,
  async run(args, terminal) {
    const id = jobId(singlePositional(args.positionals, 'run'));
    const { values } = args;
    const step = wholeOf(values, 'step', 1, MAX_STEP);
    if (step === undefined) throw new UsageError('--step is missing: the first step that is made anew.');
    const [model, input, runId] = ['model', 'input', 'id'].map((name) => textOf(values, name));
    const given = textOf(values, 'instructions');
    const instructions = given?.startsWith('@') ? await fileText(given.slice(1)) : given;
    const client = connect(args);
    const started = await forJob(client, id, (whole) =>
      client.forkRun(whole, {
        step,
        ...(model !== undefined && { model }),
        ...(instructions !== undefined && { instructions }),
        ...(input !== undefined && { input }),
        ...(runId !== undefined && { run_id: runId }),
      }),
    );
    if (flagOf(values, 'json')) terminal.printData(JSON.stringify(started));
    else terminal.print(started.run_id);
    return EXIT.ok;
  },
};
