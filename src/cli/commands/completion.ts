/** `orchd completion bash|zsh`: made from the table of commands, so that it cannot lag behind it. */

import { oneOf, singlePositional } from '../arguments.ts';
import { type Command, EXIT, type LoadedCommand } from '../command.ts';
import { usageOf } from '../options.ts';
import { bashScript } from '../text/completion-bash.ts';
import { zshScript } from '../text/completion-zsh.ts';

const SHELLS = ['bash', 'zsh'] as const;

export const completionOf = (commands: () => Promise<readonly LoadedCommand[]>): Command => ({
  usage: usageOf({
    call: 'completion bash|zsh',
    about: 'Prints a completion script, to be read by the shell when it starts.',
    options: {},
    examples: [
      'source <(orchd completion bash)',
      'orchd completion bash > ~/.local/share/bash-completion/completions/orchd',
      'source <(orchd completion zsh)',
    ],
  }),
  options: {},
  words: SHELLS,
  async run({ positionals }, terminal) {
    const shell = oneOf(singlePositional(positionals, 'shell'), 'the shell', SHELLS);
    const loaded = await commands();
    terminal.print(shell === 'bash' ? bashScript(loaded) : zshScript(loaded));
    return EXIT.ok;
  },
});
