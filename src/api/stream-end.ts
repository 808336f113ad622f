/** How a stream of OpenAI ends. */
import type { OrchdError } from '../model/errors.ts';
import { renderError } from '../wire/render-error.ts';

/** Stands behind the error: whoever passes the stream on knows by it that nothing more was to come. */
const FAILED = ': failed\n\n';
/** After a whole answer. */
export const DONE = 'data: [DONE]\n\n';

export const failureText = (error: OrchdError, correlationId: string): string =>
  `data: ${JSON.stringify(renderError(error, correlationId, 'openai').body)}\n\n${FAILED}`;

/** Whether a stream that ends with this text was sent to its end. */
export const isWhole = (tail: string): boolean => tail.endsWith(DONE) || tail.endsWith(FAILED);
