/** Placeholders in the arguments of commands: what a configuration may say about them. */

/** Fields of a job that can be put into an argument. */
export type Placeholder = 'prompt' | 'thread';

/** Finds all placeholders in one pass, so that a prompt which contains one is not filled in again. */
export const PLACEHOLDER = /\{(prompt|thread)\}/g;

export const hasPlaceholder = (argv: readonly string[], name: Placeholder): boolean =>
  argv.some((argument) => argument.includes(`{${name}}`));

interface ArgumentFault {
  readonly key: 'argv' | 'resume_argv';
  /** For people. */
  readonly message: string;
}

/** What is wrong with the placeholders of a command; nothing for one without any. */
export function argumentFaults(argv: readonly string[], resumeArgv?: readonly string[]): ArgumentFault[] {
  const faults: ArgumentFault[] = [];
  for (const [key, words = []] of [
    ['argv', argv],
    ['resume_argv', resumeArgv],
  ] as const) {
    const [program = ''] = words;
    if (hasPlaceholder([program], 'prompt') || hasPlaceholder([program], 'thread'))
      faults.push({
        key,
        message: 'the program may not contain a placeholder: a job would choose what is run',
      });
  }
  if (hasPlaceholder(argv, 'thread'))
    faults.push({
      key: 'argv',
      message: 'a job without a thread is run with argv: move {thread} to resume_argv',
    });
  if (resumeArgv && !hasPlaceholder(resumeArgv, 'thread'))
    faults.push({ key: 'resume_argv', message: 'it must say where the thread goes: add {thread}' });
  return faults;
}
