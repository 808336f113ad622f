/** One look at a chat page: the few facts about it that the driver decides by. */
import type { Page } from 'playwright-core';
import type { PageSelectors } from '../../../../model/gateway-wire.ts';

export interface PageView {
  readonly hasInput: boolean;
  readonly hasSend: boolean;
  /** The send button is there and can be pressed. */
  readonly canSend: boolean;
  readonly isBusy: boolean;
  readonly hasLogin: boolean;
  /** The number of visible errors, and the text of the last. */
  readonly errors: number;
  readonly errorText: string;
  /** The number of answers, and the text of the last. */
  readonly answers: number;
  readonly text: string;
}

/** The parts of the DOM that are used; the types of this program have none. */
interface ElementLike {
  readonly innerText?: string;
  readonly textContent: string | null;
  readonly disabled?: boolean;
  getAttribute(name: string): string | null;
  getClientRects(): { readonly length: number };
}

/** Exists in the page only, where `view` runs. */
declare const document: { querySelectorAll(selector: string): Iterable<ElementLike> };

export const lookAt = (page: Page, selectors: PageSelectors): Promise<PageView> =>
  page.evaluate(view, selectors);

/** Runs in the page, so it uses nothing from outside of itself. */
function view({ input, send, answer, busy, login, error }: PageSelectors): PageView {
  const all = (selector: string | undefined): ElementLike[] =>
    selector === undefined ? [] : [...document.querySelectorAll(selector)];
  const visible = (selector: string | undefined): ElementLike[] =>
    all(selector).filter((element) => element.getClientRects().length > 0);
  const textOf = (element: ElementLike | undefined): string =>
    (element?.innerText ?? element?.textContent ?? '').trim();
  const sends = visible(send);
  const answers = all(answer);
  const errors = visible(error);
  const canSend = sends.some(
    (element) => element.disabled !== true && element.getAttribute('aria-disabled') !== 'true',
  );
  return {
    hasInput: visible(input).length > 0,
    hasSend: sends.length > 0,
    canSend,
    isBusy: busy === undefined ? !canSend : visible(busy).length > 0,
    hasLogin: visible(login).length > 0,
    errors: errors.length,
    errorText: textOf(errors.at(-1)).slice(0, 200),
    answers: answers.length,
    text: textOf(answers.at(-1)),
  };
}
