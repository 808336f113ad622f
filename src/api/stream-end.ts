/** The last bytes of a stream in OpenAI's format, by which a proxying node recognises that the stream is complete. */
import type { OrchdError } from '../model/errors.ts';
import { renderError } from '../wire/render-error.ts';

/** An SSE comment after the error event: it shows a proxying node that the stream was not cut off. */
const FAILED = ': failed\n\n';
/** Sent after a complete answer. */
export const DONE = 'data: [DONE]\n\n';

export const failureText = (error: OrchdError, correlationId: string): string =>
  `data: ${JSON.stringify(renderError(error, correlationId, 'openai').body)}\n\n${FAILED}`;

/** Whether a stream that ends with `tail` was sent to its end. */
export const isComplete = (tail: string): boolean => tail.endsWith(DONE) || tail.endsWith(FAILED);
