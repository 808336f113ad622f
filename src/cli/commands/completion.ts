/** `orchd completion bash|zsh`: made from the table of commands, so that it cannot lag behind it. */

import { type Command, EXIT, type LoadedCommand } from '../command.ts';
import { oneOf, onlyWord } from '../given.ts';
import { usageOf } from '../options.ts';
import { bashScript } from '../text/completion-bash.ts';
import { zshScript } from '../text/completion-zsh.ts';

const SHELLS = ['bash', 'zsh'] as const;

export const completionOf = (commands: () => Promise<readonly LoadedCommand[]>): Command => ({
  usage: usageOf({
    call: 'completion bash|zsh',
    about: 'Prints the script; the shell reads it at its start.',
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
    const shell = oneOf(onlyWord(positionals, 'shell'), 'the shell', SHELLS);
    const loaded = await commands();
    terminal.print(shell === 'bash' ? bashScript(loaded) : zshScript(loaded));
    return EXIT.ok;
  },
});
