/** The prompt of a call as messages in OpenAI's form, which is the form of our payloads. */
import type {
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ToolCallPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
} from '@ai-sdk/provider';
import { filePart } from './files.ts';
import type { Warnings } from './warnings.ts';

/** A message of a payload. */
export type Message = Readonly<Record<string, unknown>> & { readonly role: string };

type Of<Role extends LanguageModelV4Message['role']> = Extract<LanguageModelV4Message, { role: Role }>;

export const messagesOf = (prompt: LanguageModelV4Prompt, warnings: Warnings): Message[] =>
  prompt.flatMap((message) => {
    // What the options say of the message itself is put beside its content, as OpenAI's compatible servers expect it.
    const fields = warnings.ownOptions(message.providerOptions);
    return bareMessages(message, warnings).map((each) => ({ ...each, ...fields }));
  });

function bareMessages(message: LanguageModelV4Message, warnings: Warnings): Message[] {
  switch (message.role) {
    case 'system':
      return [{ role: 'system', content: message.content }];
    case 'user':
      return [{ role: 'user', content: userContent(message, warnings) }];
    case 'assistant':
      return [assistantMessage(message, warnings)];
    case 'tool':
      return toolMessages(message, warnings);
  }
}

function userContent({ content }: Of<'user'>, warnings: Warnings): string | object[] {
  const parts = content.map((part) => {
    const fields = warnings.ownOptions(part.providerOptions);
    return part.type === 'text'
      ? { type: 'text', text: part.text, ...fields }
      : filePart(part, fields, warnings);
  });
  return plainText(parts) ?? parts;
}

/** The text of a single part that is nothing but a text: every backend takes such a content. */
function plainText(parts: readonly object[]): string | undefined {
  const [part] = parts as readonly { readonly type?: unknown; readonly text?: unknown }[];
  const isPlain = parts.length === 1 && part?.type === 'text' && Object.keys(part).length === 2;
  return isPlain && typeof part?.text === 'string' ? part.text : undefined;
}

function assistantMessage({ content }: Of<'assistant'>, warnings: Warnings): Message {
  let text = '';
  let reasoning = '';
  const calls: object[] = [];
  for (const part of content) {
    if (part.type === 'text') text += part.text;
    else if (part.type === 'reasoning') reasoning += part.text;
    else if (part.type === 'tool-call' && !part.providerExecuted) calls.push(toolCall(part, warnings));
    else warnings.unsupported(`${part.type} of an assistant`, 'it is left out of the conversation');
    if (part.type === 'text' || part.type === 'reasoning') warnings.ownOptions(part.providerOptions);
  }
  return {
    role: 'assistant',
    content: text,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Fields that a provider has put on its call, such as a signature, go back to it (`answer.ts`). */
function toolCall(part: LanguageModelV4ToolCallPart, warnings: Warnings): object {
  const { toolCallId: id, toolName: name, input } = part;
  const fields = warnings.ownOptions(part.providerOptions);
  return { id, type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) }, ...fields };
}

function toolMessages({ content }: Of<'tool'>, warnings: Warnings): Message[] {
  return content.flatMap((part) => {
    if (part.type === 'tool-result') return [toolResult(part, warnings)];
    warnings.unsupported(part.type, 'a queued model runs no tools of its own that need an approval');
    return [];
  });
}

function toolResult(part: LanguageModelV4ToolResultPart, warnings: Warnings): Message {
  const { toolCallId, output } = part;
  // The AI SDK copies the metadata of a call to its result, where they are of no use: only those of the output count.
  warnings.ownOptions(part.providerOptions);
  const fields = output.type === 'content' ? {} : warnings.ownOptions(output.providerOptions);
  return { role: 'tool', tool_call_id: toolCallId, content: outputContent(output, warnings), ...fields };
}

const DENIED = 'The call of the tool was denied.';

function outputContent(output: LanguageModelV4ToolResultOutput, warnings: Warnings): string | object[] {
  switch (output.type) {
    case 'text':
    case 'error-text':
      return output.value;
    case 'json':
    case 'error-json':
      return JSON.stringify(output.value);
    case 'execution-denied':
      return output.reason === undefined ? DENIED : `${DENIED} ${output.reason}`;
    case 'content': {
      const parts = output.value.flatMap((part) => {
        const fields = warnings.ownOptions(part.providerOptions);
        if (part.type === 'text') return [{ type: 'text', text: part.text, ...fields }];
        if (part.type === 'file') return [filePart(part, fields, warnings)];
        warnings.unsupported('custom parts of a tool result', 'they are left out of the conversation');
        return [];
      });
      return plainText(parts) ?? parts;
    }
  }
}
